/**
 * The random stream of sampling: a pure function of (seed, token index, token id), so that a seed's tokens
 * depend neither on the batch they were sampled in nor on the backend. `sample.wgsl` holds the same functions.
 *
 * @module
 */

/**
 * A bijective 32-bit mixer, "lowbias32".
 *
 * Found by Chris Wellons' hash-prospector (https://nullprogram.com/blog/2018/07/31/).
 *
 * @returns an integer whose unsigned value is meant; it may be negative.
 */
export function mix32(value: number): number {
  value ^= value >>> 16;
  value = Math.imul(value, 0x7feb352d);
  value ^= value >>> 15;
  value = Math.imul(value, 0x846ca68b);
  return value ^ (value >>> 16);
}

/** The key of one row's stream: token id `t` draws `mix32(rowKey + t)`. */
export function rowKey(seed: number, tokenIndex: number): number {
  return mix32((mix32(seed) + tokenIndex) | 0) >>> 0;
}

/** The uniform in (0, 1) that a draw stands for. */
export function uniform(draw: number): number {
  return ((draw >>> 0) + 0.5) * 2 ** -32;
}

/** The exponential variate (mean 1) of a {@linkcode uniform}; never less than the uniform itself. */
export function exponential(uniform: number): number {
  return -Math.log1p(-uniform);
}
