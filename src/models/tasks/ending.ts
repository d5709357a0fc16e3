/**
 * How an answer ends: what it took, or why there is none.
 *
 * @module
 */
import type { WireError } from "../../errors.ts";

/** A request could not be answered; nothing follows. */
export interface ErrorEvent {
  readonly type: "error";
  readonly error: WireError;
}

/** Tokens a request took. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Completion tokens of thought. */
  readonly reasoningTokens?: number | undefined;
  /** Prompt tokens whose keys and values were already there. */
  readonly cachedTokens: number;
}
