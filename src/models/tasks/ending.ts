/**
 * What the answers to all tasks have in common: how they begin, and how they end.
 *
 * @module
 */
import type { WireError } from "../../errors.ts";

/** The request is valid and waits for its turn: what goes wrong from now on, goes wrong in the midst of the answer. */
export interface AdmittedEvent {
  readonly type: "admitted";
}

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
