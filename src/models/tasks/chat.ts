/**
 * Continuing a conversation.
 *
 * @module
 */
import type { DryOptions } from "../../engine/dry_penalty.ts";
import type { GenerationTimes } from "../../engine/loop.ts";
import type { GrammarSpec } from "../../engine/grammar/spec.ts";
import type { AdmittedEvent, ErrorEvent, TokenUsage } from "./common_events.ts";

/** One message of a conversation, its content already reduced to what the loaded kind supports. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  /** Parts only if one of them is not text. */
  readonly content: string | readonly MessagePart[];
  /** Name of the function of a tool message. */
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
  /** JSON schema of an object; absent if the function takes nothing. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  /** The same as it was written, if JavaScript reads it otherwise. */
  readonly parametersJson?: string | undefined;
  /** Whether arguments are constrained to `parameters`. */
  readonly strict?: boolean | undefined;
}

/** Which functions the model may call, and whether it must. */
export interface ToolOptions {
  readonly functions: readonly ToolFunction[];
  /** A name: exactly this one, immediately. */
  readonly choice: "auto" | "none" | "required" | { readonly name: string };
  /** Whether an answer may hold more than one call. */
  readonly isParallel: boolean;
}

export interface PromptOptions {
  /** Variables of the template. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** The same as they were written, if JavaScript reads them otherwise. */
  readonly variablesJson?: string | undefined;
  /** `none` turns reasoning off if the template supports that; else passed to templates that know it. */
  readonly reasoningEffort?: string | undefined;
  /** Whether the prompt ends where the assistant's answer begins; true if absent. */
  readonly addsGenerationPrompt?: boolean | undefined;
  /** Whether the last message is left open, to be continued. */
  readonly continuesFinalMessage?: boolean | undefined;
}

/** A part of a message, in order. */
export type MessagePart = TextPart | ImagePart | DocumentPart;

export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

export interface ImagePart {
  readonly type: "image";
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The part's path in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** A file of pages. Before a model sees it, it becomes their images, or their text. */
export interface DocumentPart {
  readonly type: "document";
  /** A PDF file's bytes; transferred to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** As of an image. */
  readonly param: string;
}

/** A prompt without a chat template. */
export interface RawPrompt {
  /** Text, or the ids of its tokens. */
  readonly prompt: string | readonly number[];
  /** The text after the gap, for fill-in-the-middle. */
  readonly suffix?: string | undefined;
  /** Whether a text gets the tokenizer's special tokens around it; true if absent. */
  readonly addsSpecialTokens?: boolean | undefined;
  /** Whether to echo the prompt's text. */
  readonly echo?: boolean | undefined;
}

/** A chat completion. Values are validated; absent ones default to the model's generation_config. */
export interface ChatTask {
  readonly type: "chat";
  readonly requestId: string;
  readonly messages: readonly ChatMessage[];
  readonly prompt?: PromptOptions | undefined;
  /** Instead of messages, which are then empty. */
  readonly raw?: RawPrompt | undefined;
  readonly tools?: ToolOptions | undefined;
  readonly options: GenerationOptions;
  /** The format of the answer; free if absent. */
  readonly grammar?: GrammarSpec | undefined;
  /** Only count the prompt's tokens. */
  readonly onlyCounts?: boolean | undefined;
}

/** What a prompt is rendered of. */
export type Conversation = Pick<ChatTask, "messages" | "prompt" | "tools">;

export interface GenerationOptions {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  /** At most 0: off. */
  readonly topNSigma?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
  /** Most recent tokens that the repetition penalty applies to; all if absent. */
  readonly repetitionWindow?: number | undefined;
  /** The penalty DRY; off if absent. */
  readonly dry?:
    | Omit<DryOptions, "isBreaker"> & {
      /** A repetition does not reach across tokens with one of these. */
      readonly breakers: readonly string[];
    }
    | undefined;
  /** `[tokenId, bias]`, each token once. */
  readonly logitBias?: readonly (readonly [number, number])[] | undefined;
  /** Unsigned 32-bit; random if absent. Choice `i` of `n` uses its own stream derived from it. */
  readonly seed?: number | undefined;
  /** Most tokens; the end of the context is the limit if absent. */
  readonly maxTokens?: number | undefined;
  readonly stop: readonly string[];
  /** Whether the text includes what ends it, a stop string or a token; not if absent. */
  readonly includesStop?: boolean | undefined;
  /** Whether special tokens are left out of the text; true if absent. */
  readonly skipsSpecialTokens?: boolean | undefined;
  /** Tokens that end a completion besides the model's own. */
  readonly stopTokenIds?: readonly number[] | undefined;
  /** Neither a token nor a stop string ends a completion before it has this many tokens. */
  readonly minTokens?: number | undefined;
  /** The model's own end tokens do not end a completion. */
  readonly ignoreEos?: boolean | undefined;
  /** Choices to generate. */
  readonly n: number;
  /** Report log-probabilities of the chosen and this many of the most likely tokens; absent reports none. */
  readonly topLogprobs?: number | undefined;
  /** Report log-probabilities of the prompt's tokens too, and of this many of the most likely; absent reports none. */
  readonly promptLogprobs?: number | undefined;
}

/** A token with its log-probability. */
export interface TokenLogprob {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** The log-probability of a chosen token and its alternatives. */
export interface ChosenLogprob extends TokenLogprob {
  /** Where its text begins in the choice's, in UTF-16 units. */
  readonly offset: number;
  readonly top: readonly TokenLogprob[];
}

export interface PromptToken extends Omit<TokenLogprob, "logprob"> {
  readonly id: number;
  /** Absent for the first token. */
  readonly logprob?: number | undefined;
  /** Most likely first. */
  readonly top: readonly (TokenLogprob & { readonly id: number })[];
}

/** A delta of a choice's call. The first of a call has its id and name. */
export interface ToolCallDelta {
  /** Which of the choice's calls. */
  readonly index: number;
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  /** JSON, its next piece. */
  readonly arguments: string;
}

export type ChatFinishReason = "stop" | "length" | "tool_calls";

/**
 * Worker to server, on a chat request's port, in this order: admitted or not, start, prompt if wanted, deltas and
 * finishes, done; or error at any point, which ends it.
 */
export type ChatEvent =
  /** Comes from models that only know the rest when they start. */
  | AdmittedEvent
  /** The request is admitted; with the number of prompt tokens. */
  | {
    readonly type: "start";
    readonly promptTokens: number;
    /** The prompt, if it is echoed. */
    readonly text?: string | undefined;
  }
  /** All of its tokens, before the first delta. */
  | { readonly type: "prompt"; readonly tokens: readonly PromptToken[] }
  | {
    readonly type: "delta";
    readonly index: number;
    /** May be empty when it only carries something else. */
    readonly text: string;
    /** Reasoning, which comes before the text. */
    readonly reasoning?: string | undefined;
    readonly toolCalls?: readonly ToolCallDelta[] | undefined;
    /** Log-probabilities of tokens whose text is whole with this delta. */
    readonly logprobs?: readonly ChosenLogprob[] | undefined;
    /** Tokens of the choice so far; absent where the model has none. */
    readonly numTokens?: number | undefined;
  }
  | {
    readonly type: "finish";
    readonly index: number;
    readonly reason: ChatFinishReason;
    /** Tokens of the choice; absent where the model has none. */
    readonly numTokens?: number | undefined;
    /** The stop string that ended it. */
    readonly stopSequence?: string | undefined;
  }
  | {
    readonly type: "done";
    readonly usage: TokenUsage;
    /** Where its time went, for the log. */
    readonly times?: GenerationTimes | undefined;
  }
  | ErrorEvent;
