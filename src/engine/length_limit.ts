/**
 * The error of a prompt that is too long: what the limit is, why, and which setting may change it.
 *
 * @module
 */
import type { LengthLimit } from "../decoder/decoder.ts";
import { HearthError, type Setting } from "../base/errors.ts";

const REASONS: Readonly<
  Record<LengthLimit | "model", { readonly why: string; readonly setting?: Setting }>
> = {
  model: { why: "as many as it was made for" },
  maxModelLength: { why: "as many as this server allows", setting: "maxModelLength" },
  kvCacheMb: { why: "as many as its memory for keys and values holds", setting: "kvCacheMb" },
  buffer: { why: "as many as a buffer of its device holds", setting: "kvCacheDtype" },
  memory: { why: "as many as the free memory has room for", setting: "kvCacheDtype" },
};

/** A prompt that does not fit. */
interface LongPrompt {
  readonly numPromptTokens: number;
  /** Whether a token must fit behind it. */
  readonly wantsAnswer: boolean;
  /** Most tokens. */
  readonly most: number;
  /** What sets the limit; the length that the model was made for if absent. */
  readonly reason: LengthLimit | undefined;
}

/** The error `context_length_exceeded`. */
export function contextExceeded(
  { numPromptTokens, wantsAnswer, most, reason }: LongPrompt,
): HearthError {
  const answer = wantsAnswer ? ", and the answer takes one at least" : "";
  const { why, setting } = REASONS[reason ?? "model"];
  // Clients look for the words "maximum context length is".
  return new HearthError(
    "context_length_exceeded",
    `This model's maximum context length is ${most} tokens, ${why}; ` +
      `the prompt has ${numPromptTokens}${answer}.`,
    { setting },
  );
}
