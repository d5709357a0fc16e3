/**
 * Rules for the next token of a sequence, and DRY ("don't repeat yourself"): a penalty on tokens that would continue a
 * repetition. The penalty grows with the length of the repetition.
 *
 * A token is penalised by `multiplier * base ^ (n - allowedLength)` if `n ≥ allowedLength`. Here `n` is the length of
 * the longest suffix of the text that has occurred earlier, followed by this token. No match extends across a breaker
 * token.
 *
 * @see https://github.com/oobabooga/text-generation-webui/pull/5677
 * @module
 */
import type { SampleRow } from "../../kernels/sample/sample_row.ts";

/** Constrains the next token of one sequence. */
export interface TokenRules {
  /**
   * A mask of the allowed next tokens; all are allowed if absent. Read when the token is sampled, and valid until
   * {@linkcode accept}.
   */
  readonly mask?: SampleRow["mask"];
  readonly rule?: SampleRow["rule"];
  /** Whether no further token may follow. */
  readonly isFinished?: boolean;
  /** Records the token that was chosen. */
  accept?(tokenId: number): void;
}

/** Makes a mask of these tokens: bit `t % 32` of word `t >> 5` is set for token `t`. */
export function toMask(tokens: Iterable<number>, vocabSize: number): Uint32Array<ArrayBuffer> {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const token of tokens) mask[token >>> 5]! |= 1 << (token & 31);
  return mask;
}

/** The parameters of DRY, as in llama.cpp. */
export interface DryOptions {
  /** Greater than 0. */
  readonly multiplier: number;
  /** At least 1. */
  readonly base: number;
  /** Longest repetition, including the token, that is not penalised; at least 1. */
  readonly allowedLength: number;
  /** How many of the most recent tokens, of prompt and completion, are examined; all if absent. */
  readonly window?: number | undefined;
  /** Whether a token ends repetitions. Called once per token id. */
  readonly isBreaker: (tokenId: number) => boolean;
}

/** Largest natural logarithm of a power: beyond it float32 overflows. */
const LARGEST_LOG = 88.7;

/** Computes the penalties of one sequence, step by step. */
export class DryPenalty {
  readonly #options: DryOptions;
  /** Results of `isBreaker` by token id. */
  readonly #breakers = new Map<number, boolean>();

  constructor(options: DryOptions) {
    this.#options = options;
  }

  /**
   * Returns what to subtract from the logits of tokens that would continue a repetition.
   *
   * @param tokens prompt and completion so far.
   */
  compute(tokens: Int32Array): ReadonlyMap<number, number> {
    const { multiplier, base, allowedLength, window = Infinity } = this.#options;
    const recent = tokens.subarray(-Math.min(window, tokens.length)).toReversed();
    const longest = recent.findIndex((token) => this.#isBreaker(token));
    const reach = longest < 0 ? recent.length : longest;
    const penalties = new Map<number, number>();
    if (reach < allowedLength) return penalties;
    const mostExponent = base > 1 ? LARGEST_LOG / Math.log(base) : Infinity;
    const matches = countMatches(recent);
    for (let at = 1; at < recent.length; at++) {
      const length = Math.min(matches[at]!, reach);
      const next = recent[at - 1]!;
      if (length < allowedLength || this.#isBreaker(next)) continue;
      const penalty = multiplier * base ** Math.min(length - allowedLength, mostExponent);
      penalties.set(next, Math.max(penalty, penalties.get(next) ?? 0));
    }
    return penalties;
  }

  #isBreaker(tokenId: number): boolean {
    let is = this.#breakers.get(tokenId);
    if (is === undefined) this.#breakers.set(tokenId, is = this.#options.isBreaker(tokenId));
    return is;
  }
}

/** Computes the Z function: for each index, how many tokens from there on equal the tokens at the start. */
function countMatches(tokens: Int32Array): Int32Array {
  const lengths = new Int32Array(tokens.length);
  // The match that extends furthest, from `left` up to `right`.
  let left = 0;
  let right = 0;
  for (let at = 1; at < tokens.length; at++) {
    let length = at < right ? Math.min(right - at, lengths[at - left]!) : 0;
    while (at + length < tokens.length && tokens[length] === tokens[at + length]) length++;
    lengths[at] = length;
    if (at + length > right) [left, right] = [at, at + length];
  }
  return lengths;
}
