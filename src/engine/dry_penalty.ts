/**
 * DRY ("don't repeat yourself"): a penalty on tokens that would go on a repetition, growing with its length.
 *
 * A token is penalised by `multiplier * base ^ (n - allowedLength)` if the last `n ≥ allowedLength` tokens stood before it
 * already, `n` the most for which that is so. Tokens with a breaker in their text begin anew: a repetition does not
 * reach across them.
 *
 * @see https://github.com/oobabooga/text-generation-webui/pull/5677
 * @module
 */

/** As llama.cpp has them. */
export interface DryOptions {
  /** Over 0. */
  readonly multiplier: number;
  /** At least 1. */
  readonly base: number;
  /** Longest repetition that is not penalised, at least 1. */
  readonly allowedLength: number;
  /** Most recent tokens of prompt and completion that it looks back on; all if absent. */
  readonly window?: number | undefined;
  /** Whether a repetition does not reach across the token. It is asked once for each. */
  readonly isBreaker: (tokenId: number) => boolean;
}

/** Largest exponent: beyond it float32 overflows. */
const LARGEST_LOG = 88.7;

/** What a token of one sequence is penalised by, step by step. */
export class DryPenalty {
  readonly #options: DryOptions;
  /** Of all tokens that were asked for. */
  readonly #breakers = new Map<number, boolean>();

  constructor(options: DryOptions) {
    this.#options = options;
  }

  /**
   * What is subtracted from the logits of tokens that would go on a repetition, by token.
   *
   * @param tokens prompt and completion so far.
   */
  of(tokens: Int32Array): ReadonlyMap<number, number> {
    const { multiplier, base, allowedLength, window = Infinity } = this.#options;
    const recent = tokens.subarray(-Math.min(window, tokens.length)).toReversed();
    const longest = recent.findIndex((token) => this.#isBreaker(token));
    const reach = longest < 0 ? recent.length : longest;
    const penalties = new Map<number, number>();
    if (reach < allowedLength) return penalties;
    const mostExponent = base > 1 ? LARGEST_LOG / Math.log(base) : Infinity;
    const matches = matchesOfStart(recent);
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

/** How many tokens from each place on equal those from the start on: the Z function. */
function matchesOfStart(tokens: Int32Array): Int32Array {
  const lengths = new Int32Array(tokens.length);
  // The match that reaches furthest: from `left` up to `right`.
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
