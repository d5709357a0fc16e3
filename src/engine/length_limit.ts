/**
 * The error for a prompt that is too long: what the limit is, why, and which setting may change it.
 *
 * @module
 */
import type { LengthLimit } from "../decoder/decoder.ts";
import { HearthError, type Setting } from "../base/errors.ts";

const REASONS: Readonly<
  Record<LengthLimit | "model", { readonly why: string; readonly setting?: Setting }>
> = {
  model: { why: "as many as it was trained for" },
  maxModelLength: { why: "as many as this server allows", setting: "maxModelLength" },
  kvCacheMb: { why: "as many as its memory for keys and values can hold", setting: "kvCacheMb" },
  buffer: { why: "as many as a buffer of its device can hold", setting: "kvCacheDtype" },
  memory: { why: "as many as the free memory can hold", setting: "kvCacheDtype" },
};

/** A prompt that does not fit. */
interface LongPrompt {
  readonly numPromptTokens: number;
  /** Whether at least one generated token must fit after the prompt. */
  readonly wantsAnswer: boolean;
  /** Most tokens that fit. */
  readonly most: number;
  /** What sets the limit; if absent, the length that the model was trained for. */
  readonly reason: LengthLimit | undefined;
}

/** Creates the error `context_length_exceeded`. */
export function contextExceeded(
  { numPromptTokens, wantsAnswer, most, reason }: LongPrompt,
): HearthError {
  const answer = wantsAnswer ? ", and the answer needs at least one more" : "";
  const { why, setting } = REASONS[reason ?? "model"];
  // Clients look for the words "maximum context length is".
  return new HearthError(
    "context_length_exceeded",
    `This model's maximum context length is ${most} tokens, ${why}; ` +
      `the prompt has ${numPromptTokens}${answer}.`,
    { setting },
  );
}
