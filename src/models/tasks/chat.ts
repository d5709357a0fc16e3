/**
 * Continuing a conversation.
 *
 * @module
 */
import type { GrammarSpec } from "../../grammar/spec.ts";
import type { ErrorEvent, TokenUsage } from "./ending.ts";

/** One message of a conversation, its content already reduced to what the loaded kind takes. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  /** Parts only where one of them is not text. */
  readonly content: string | readonly MessagePart[];
}

/** A part of a message, in the order in which the model is to see them. */
export type MessagePart = TextPart | ImagePart;

/** Words. */
export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A picture. */
export interface ImagePart {
  readonly type: "image";
  /** The file's bytes, of any format that is known; their memory goes to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The part's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** A chat completion. Values are validated; what is absent falls to the model's generation_config. */
export interface ChatTask {
  readonly type: "chat";
  readonly requestId: string;
  readonly messages: readonly ChatMessage[];
  readonly options: GenerationOptions;
  /** What the answer must look like; anything if absent. */
  readonly grammar?: GrammarSpec | undefined;
}

/** How to generate. */
export interface GenerationOptions {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
  /** `[tokenId, bias]`, each token once. */
  readonly logitBias?: readonly (readonly [number, number])[] | undefined;
  /** Unsigned 32-bit; random if absent. Choice `i` of `n` uses its own stream derived from it. */
  readonly seed?: number | undefined;
  /** To the end of the context if absent. */
  readonly maxTokens?: number | undefined;
  readonly stop: readonly string[];
  /** Choices to generate. */
  readonly n: number;
  /** Report log-probabilities of the chosen and this many of the most likely tokens; absent reports none. */
  readonly topLogprobs?: number | undefined;
}

/** A token with its log-probability. */
export interface TokenLogprob {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** The log-probability of a chosen token and its rivals. */
export interface ChosenLogprob extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

/** Worker to server, on a chat request's port, in this order: start, deltas and finishes, done; or error at any point, which ends it. */
export type ChatEvent =
  | { readonly type: "start"; readonly promptTokens: number }
  | {
    readonly type: "delta";
    /** Which choice. */
    readonly index: number;
    /** May be empty when it only carries log-probabilities. */
    readonly text: string;
    readonly logprobs?: readonly ChosenLogprob[] | undefined;
  }
  | { readonly type: "finish"; readonly index: number; readonly reason: "stop" | "length" }
  | { readonly type: "done"; readonly usage: TokenUsage }
  | ErrorEvent;
