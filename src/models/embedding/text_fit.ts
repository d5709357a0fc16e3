/**
 * Handles texts longer than the model's limit: refused with both lengths, or truncated if the request says so.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { Truncation } from "../task.ts";

interface FitOptions {
  /** Special tokens added to it. */
  readonly numSpecial: number;
  /** Most tokens the model takes, special ones included; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly truncation: Truncation | undefined;
  /** Path of the text in the request. */
  readonly param: string;
}

/** Most tokens by the request or the model, special ones included. */
function computeRoom({ maxTokens = Infinity, truncation, numSpecial, param }: FitOptions): number {
  if (truncation === undefined || truncation === "model") return maxTokens;
  if (truncation > numSpecial) return Math.min(truncation, maxTokens);
  throw new HearthError(
    "invalid_value",
    `want more than the ${numSpecial} special tokens around ${param}, saw ${truncation}.`,
    { param: "truncation" },
  );
}

/**
 * Cuts the tokens of a text at their end, where they are too many and the request allows it.
 *
 * @throws {HearthError} `context_length_exceeded` with both lengths; `invalid_value` for a text without tokens.
 */
export function fitText(ids: readonly number[], options: FitOptions): readonly number[] {
  const { numSpecial, truncation, param } = options;
  const room = computeRoom(options);
  if (ids.length + numSpecial === 0) {
    throw new HearthError(
      "invalid_value",
      `${param}: want text in which the model knows a token, saw none.`,
      { param },
    );
  }
  if (ids.length + numSpecial <= room) return ids;
  if (truncation === undefined) {
    throw tooLong(`${param} has`, ids.length + numSpecial, options);
  }
  return ids.slice(0, room - numSpecial);
}

/**
 * Cuts a query and a document: first the document to `maxSecond` tokens, then the longer of both until they fit.
 *
 * @throws {HearthError} as {@linkcode fitText}.
 */
export function fitPair(
  first: readonly number[],
  second: readonly number[],
  options: FitOptions & { readonly maxSecond: number | undefined },
): [readonly number[], readonly number[]] {
  const { numSpecial, truncation, maxSecond = Infinity } = options;
  const allowed = second.length > maxSecond ? second.slice(0, maxSecond) : second;
  const room = computeRoom(options) - numSpecial;
  if (first.length + allowed.length <= room) return [first, allowed];
  if (truncation === undefined) {
    const numTokens = first.length + allowed.length + numSpecial;
    throw tooLong(`query and ${options.param} together have`, numTokens, options);
  }
  const half = Math.ceil(room / 2);
  const firstRoom = Math.min(first.length, Math.max(half, room - allowed.length));
  return [first.slice(0, firstRoom), allowed.slice(0, room - firstRoom)];
}

function tooLong(subject: string, numTokens: number, options: FitOptions): HearthError {
  const { maxTokens, param } = options;
  return new HearthError(
    "context_length_exceeded",
    `${subject} ${numTokens} tokens, and the model takes at most ${maxTokens}. ` +
      "Send less text, or truncate it.",
    { param },
  );
}
