/**
 * Tokenization and detokenization.
 *
 * @module
 */
import type { ChatTask } from "./chat.ts";
import type { ErrorEvent } from "./ending.ts";

/** Turns a text, or a conversation, into tokens. */
export interface TokenizeTask {
  readonly type: "tokenize";
  readonly requestId: string;
  readonly text: string;
  /** Instead of the text. */
  readonly chat?: Pick<ChatTask, "messages" | "prompt" | "tools"> | undefined;
  /** Whether to add the special tokens around a text. */
  readonly hasSpecial: boolean;
  /** Whether the text of each token is wanted. */
  readonly withPieces: boolean;
  /** Whether only the rendered conversation is wanted. */
  readonly onlyRenders: boolean;
}

/** Turns tokens into text. */
export interface DetokenizeTask {
  readonly type: "detokenize";
  readonly requestId: string;
  readonly tokens: readonly number[];
}

/** The single answer to either. */
export type TokenTaskEvent =
  | {
    readonly type: "done";
    readonly tokens: readonly number[];
    readonly pieces?: readonly string[] | undefined;
    readonly text: string;
  }
  | ErrorEvent;
