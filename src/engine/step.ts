/**
 * What one step of the decoder computes, and its result.
 *
 * @module
 */
import type { SampledToken, SampleRow, StepBatch } from "../decoder/decoder.ts";
import type { Sequence } from "./sequence.ts";

/** One sequence's part in a step. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  /** Tokens to compute, from `sequence.numComputed` on; at least 1. */
  readonly numTokens: number;
  /** Whether they include the sequence's last token, so that a new one is sampled. */
  readonly samples: boolean;
  /** The rows that score tokens of its prompt, ahead of the one that samples; none where absent. */
  readonly scored?: readonly SampleRow[] | undefined;
}

/** What one step computes: sequences in order of arrival, which puts next tokens before prompts. */
export interface ScheduledStep {
  readonly scheduled: readonly ScheduledSequence[];
  readonly numTokens: number;
  /** How many of the tokens are next tokens of completions; the others are read from prompts. */
  readonly numNextTokens: number;
  /** Whether it is of prompts alone while others wait for next tokens: it is suspended for these. */
  readonly isApart?: boolean;
  /** Slots of states that are copied before it. */
  readonly stateCopies?: StepBatch["stateCopies"];
}

/** A new token and the sequence that got it. */
export interface CommittedToken<Token extends SampledToken = SampledToken> {
  readonly sequence: Sequence;
  readonly token: Token;
  /** Whether it is a token of the prompt, with its log-probability. */
  readonly isScored?: boolean;
}
