/**
 * The task of continuing a conversation.
 *
 * @module
 */
import type { DryOptions } from "../../engine/token_rules.ts";
import type { GenerationTimes } from "../../engine/loop.ts";
import type { GrammarSpec } from "../../engine/grammar/grammar.ts";
import type { WireError } from "../../base/errors.ts";

/** One message of a conversation. Its content holds only what the loaded kind of model supports. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  /** A list of parts only if at least one of them is not text. */
  readonly content: string | readonly MessagePart[];
  /** The name of a tool message's function. */
  readonly name?: string | undefined;
  /** The call that a tool message answers. */
  readonly toolCallId?: string | undefined;
  readonly toolCalls?: readonly ToolCall[] | undefined;
  /** The assistant's reasoning before its answer. */
  readonly reasoning?: string | undefined;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

/** A function that the model may call. */
export interface ToolFunction {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON schema of an object; absent if the function takes no arguments. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  /** The schema as it was received, if JSON.parse and JSON.stringify would change it. */
  readonly parametersJson?: string | undefined;
  /** Whether arguments are constrained to `parameters`. */
  readonly strict?: boolean | undefined;
}

/** The functions that the model may call, and whether it must. */
export interface ToolOptions {
  readonly functions: readonly ToolFunction[];
  /** A name requires the answer to be exactly one call, of this function. */
  readonly choice: "auto" | "none" | "required" | { readonly name: string };
  /** Whether an answer may hold more than one call. */
  readonly isParallel: boolean;
}

export interface PromptOptions {
  /** Variables for the chat template. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** The variables as they were received, if JSON.parse and JSON.stringify would change them. */
  readonly variablesJson?: string | undefined;
  /** `none` turns reasoning off if the template can; other values turn it on, and are passed as `reasoning_effort`. */
  readonly reasoningEffort?: string | undefined;
  /** Whether the prompt ends at the point where the assistant's answer begins; true if absent. */
  readonly addsGenerationPrompt?: boolean | undefined;
  /** Whether the last message is left unfinished, for the model to continue. */
  readonly continuesFinalMessage?: boolean | undefined;
}

/** A part of a message. */
export type MessagePart = TextPart | ImagePart | AudioPart | DocumentPart;

export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

export interface ImagePart {
  readonly type: "image";
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** JSON path of the part in the request, for error messages: `messages[0].content[1]`. */
  readonly param: string;
}

export interface AudioPart {
  readonly type: "audio";
  /** A recording's bytes, of any supported format; transferred to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** JSON path of the part in the request, as for images. */
  readonly param: string;
}

/** A document with pages. Before the model sees it, it is replaced by images of its pages or by their text. */
export interface DocumentPart {
  readonly type: "document";
  /** A PDF file's bytes; transferred to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** JSON path of the part in the request, as for images. */
  readonly param: string;
}

/** A prompt without a chat template. */
export interface RawPrompt {
  /** Text, or the ids of its tokens. */
  readonly prompt: string | readonly number[];
  /** The text after the gap, for fill-in-the-middle. */
  readonly suffix?: string | undefined;
  /** Whether the tokenizer adds its special tokens to the text; true if absent. */
  readonly addsSpecialTokens?: boolean | undefined;
  /** Whether to echo the prompt's text. */
  readonly echo?: boolean | undefined;
}

/** A chat completion. Values are validated; absent ones default to the model's `generation_config.json`. */
export interface ChatTask {
  readonly type: "chat";
  readonly requestId: string;
  readonly messages: readonly ChatMessage[];
  readonly prompt?: PromptOptions | undefined;
  /** A prompt to use instead of messages, which are then empty. */
  readonly raw?: RawPrompt | undefined;
  readonly tools?: ToolOptions | undefined;
  readonly options: GenerationOptions;
  /** The required format of the answer; any if absent. */
  readonly grammar?: GrammarSpec | undefined;
  /** Whether only to count the prompt's tokens. */
  readonly onlyCounts?: boolean | undefined;
}

/** The parts of a task from which the prompt is rendered. */
export type Conversation = Pick<ChatTask, "messages" | "prompt" | "tools">;

export interface GenerationOptions {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  /** A value of 0 or less turns it off. */
  readonly topNSigma?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
  /** Number of most recent tokens that the repetition penalty applies to; all if absent. */
  readonly repetitionWindow?: number | undefined;
  /** The DRY penalty; off if absent. */
  readonly dry?:
    | Omit<DryOptions, "isBreaker"> & {
      /** A repetition does not extend across tokens that contain one of these. */
      readonly breakers: readonly string[];
    }
    | undefined;
  /** `[tokenId, bias]`, each token once. */
  readonly logitBias?: readonly (readonly [number, number])[] | undefined;
  /** Unsigned 32-bit; random if absent. Choice `i` of `n` uses its own random stream derived from the seed. */
  readonly seed?: number | undefined;
  /** Maximum number of tokens to generate; up to the end of the context if absent. */
  readonly maxTokens?: number | undefined;
  readonly stop: readonly string[];
  /** Whether the text includes the stop string or token that ended it; false if absent. */
  readonly includesStop?: boolean | undefined;
  /** Whether special tokens are left out of the text; true if absent. */
  readonly skipsSpecialTokens?: boolean | undefined;
  /** Tokens that end a completion, in addition to the model's own. */
  readonly stopTokenIds?: readonly number[] | undefined;
  /** Minimum number of tokens before a token or a stop string may end a completion. */
  readonly minTokens?: number | undefined;
  /** Whether to go on after the model's own end tokens. */
  readonly ignoreEos?: boolean | undefined;
  /** Number of choices to generate. */
  readonly n: number;
  /**
   * Number of likeliest tokens to report at each position of the completion, in addition to the log-probability of the
   * chosen token; nothing is reported if absent.
   */
  readonly topLogprobs?: number | undefined;
  /** Like `topLogprobs`, for the tokens of the prompt. */
  readonly promptLogprobs?: number | undefined;
}

/** A token with its log-probability. */
export interface TokenLogprob {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** The log-probabilities of a chosen token and of its alternatives. */
export interface ChosenLogprob extends TokenLogprob {
  /** Start of the token's text within the choice's text, in UTF-16 units. */
  readonly offset: number;
  readonly top: readonly TokenLogprob[];
}

export interface PromptToken extends Omit<TokenLogprob, "logprob"> {
  readonly id: number;
  /** Absent for the first token. */
  readonly logprob?: number | undefined;
  /** The likeliest tokens, most likely first. */
  readonly top: readonly (TokenLogprob & { readonly id: number })[];
}

/** A delta of a function call. The first delta of a call has its id and name. */
export interface ToolCallDelta {
  /** Index among the choice's calls. */
  readonly index: number;
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  /** The next chunk of the arguments' JSON. */
  readonly arguments: string;
}

export type ChatFinishReason = "stop" | "length" | "tool_calls";

/**
 * Events from worker to server on a chat request's port, in this order: admitted (if sent), start, scheduled (if sent),
 * prompt (if wanted), deltas and finishes, done. An error may come at any point, and is the last event.
 */
export type ChatEvent =
  /** Sent first by models that know the content of the start event only later. */
  | AdmittedEvent
  /** The request is admitted, and its prompt is known. */
  | {
    readonly type: "start";
    readonly promptTokens: number;
    /** The prompt's text, if it is echoed. */
    readonly text?: string | undefined;
  }
  /** The model begins to compute the prompt, after the tokens found in the prefix cache. */
  | { readonly type: "scheduled"; readonly cachedTokens: number }
  /** All tokens of the prompt, before the first delta. */
  | { readonly type: "prompt"; readonly tokens: readonly PromptToken[] }
  | {
    readonly type: "delta";
    readonly index: number;
    /** Empty if the delta carries only other fields. */
    readonly text: string;
    /** Reasoning that precedes the text. */
    readonly reasoning?: string | undefined;
    readonly toolCalls?: readonly ToolCallDelta[] | undefined;
    /** Log-probabilities of the tokens whose text is complete with this delta. */
    readonly logprobs?: readonly ChosenLogprob[] | undefined;
    /** Number of the choice's tokens so far; absent if the model has no tokens. */
    readonly numTokens?: number | undefined;
  }
  | {
    readonly type: "finish";
    readonly index: number;
    readonly reason: ChatFinishReason;
    /** Number of the choice's tokens; absent if the model has no tokens. */
    readonly numTokens?: number | undefined;
    /** The stop string that ended the choice. */
    readonly stopSequence?: string | undefined;
  }
  | {
    readonly type: "done";
    readonly usage: TokenUsage;
    /** Durations of the request's phases, for the log. */
    readonly times?: GenerationTimes | undefined;
  }
  | ErrorEvent;

/** The request is valid and queued: any later error occurs while it is answered. */
export interface AdmittedEvent {
  readonly type: "admitted";
}

/** The request failed; no event follows. */
export interface ErrorEvent {
  readonly type: "error";
  readonly error: WireError;
}

/** Numbers of tokens that a request used. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Completion tokens that are reasoning. */
  readonly reasoningTokens?: number | undefined;
  /** Prompt tokens found in the prefix cache. */
  readonly cachedTokens: number;
  /** Prompt tokens that stand for sound; absent if there are none. */
  readonly audioTokens?: number | undefined;
}
