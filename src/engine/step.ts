/**
 * The input of one step of the decoder, and its result.
 *
 * @module
 */
import type { SampledToken, SampleRow, StepBatch, StepSequence } from "../decoder/decoder.ts";
import type { Sequence } from "./sequence.ts";

/** The part of one sequence in a step. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  /** Tokens to compute, from `sequence.numComputed` on; at least 1. */
  readonly numTokens: number;
  /** Whether the sequence's last token is among them, so that a new one is sampled. */
  readonly samples: boolean;
  /** Rows that score tokens of the prompt, before the row that samples; none if absent. */
  readonly scored?: readonly SampleRow[] | undefined;
  /** Where the state after some of the tokens is saved. The slot is nobody's until the step is committed. */
  readonly savedState?: StepSequence["savedState"];
}

/** The contents of a step: sequences in order of arrival, so that next tokens come before prompts. */
export interface ScheduledStep {
  readonly scheduled: readonly ScheduledSequence[];
  readonly numTokens: number;
  /** How many of the tokens are next tokens of completions; the others are read from prompts. */
  readonly numNextTokens: number;
  /** Whether the step only reads prompts while other sequences wait for next tokens, for which it is suspended. */
  readonly isApart?: boolean;
  /** State slots that are copied before the step. */
  readonly stateCopies?: StepBatch["stateCopies"];
}

/** A new token, and the sequence that got it. */
export interface CommittedToken<Token extends SampledToken = SampledToken> {
  readonly sequence: Sequence;
  readonly token: Token;
  /** Whether it is a token of the prompt, with its log-probability. */
  readonly isScored?: boolean;
}
