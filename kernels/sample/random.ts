/**
 * The random stream of sampling: a pure function of (seed, token index, token id), so the tokens for a seed depend
 * neither on the batch nor on the backend. `sample.wgsl` has the same functions.
 *
 * @module
 */

/**
 * A bijective 32-bit mixing function, "lowbias32".
 *
 * Found by Chris Wellons' hash-prospector (https://nullprogram.com/blog/2018/07/31/).
 *
 * @returns an integer to be read as unsigned; it may be negative.
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

/** Converts a draw to a uniform variate in (0, 1). */
export function uniform(draw: number): number {
  return ((draw >>> 0) + 0.5) * 2 ** -32;
}

/** Converts a {@linkcode uniform} variate to an exponential one (mean 1), which is never less. */
export function exponential(uniform: number): number {
  return -Math.log1p(-uniform);
}
