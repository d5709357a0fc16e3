/**
 * The common events of all tasks.
 *
 * @module
 */
import type { WireError } from "../../base/errors.ts";

/** The request is valid and queued: any later error occurs while it is answered. */
export interface AdmittedEvent {
  readonly type: "admitted";
}

/** A request could not be answered; nothing follows. */
export interface ErrorEvent {
  readonly type: "error";
  readonly error: WireError;
}

/** Number of tokens that a request used. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Completion tokens that are reasoning. */
  readonly reasoningTokens?: number | undefined;
  /** Prompt tokens found in the prefix cache. */
  readonly cachedTokens: number;
}
