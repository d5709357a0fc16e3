/**
 * What a model's tokenizer makes of texts and tokens.
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
  /** In place of the text. */
  readonly chat?: Pick<ChatTask, "messages" | "prompt" | "tools"> | undefined;
  /** Whether the special tokens that the model wants around a text are there too. */
  readonly hasSpecial: boolean;
  /** Whether the text of each token is wanted. */
  readonly withPieces: boolean;
  /** Whether the rendered conversation is all that is wanted. */
  readonly onlyRenders: boolean;
}

/** Turns tokens into text. */
export interface DetokenizeTask {
  readonly type: "detokenize";
  readonly requestId: string;
  readonly tokens: readonly number[];
}

/** The answer to either, in one piece. */
export type TokenTaskEvent =
  | {
    readonly type: "done";
    readonly tokens: readonly number[];
    readonly pieces?: readonly string[] | undefined;
    readonly text: string;
  }
  | ErrorEvent;
