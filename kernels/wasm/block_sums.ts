/**
 * Sums of a block's products, for {@linkcode multiply}.
 *
 * `Sum` is the type of the sums. It does not affect the results. On x64, one instruction adds two 8-bit products in
 * i16, but adding four in i32 takes three or more. Processors that add four with one instruction (ARM) need less work
 * with i32.
 *
 * `Zeros` says whether blocks have zero points.
 */
import { BLOCK_BYTES, ZEROS_BLOCK_BYTES } from "./product_layout";

/** The two values of type arguments that are booleans. */
export type Yes = u8;
export type No = u16;

@inline
export function is<Answer>(): bool {
  return sizeof<Answer>() === sizeof<Yes>();
}

/**
 * Loads the correction terms of a row's block: two i16 that `quantizeRow` writes. They subtract a zero point of 8. If
 * blocks have zero points, the result is the terms for a zero point of 1, to be multiplied by the zero points.
 */
@inline
export function loadTerms<Zeros>(at: usize): v128 {
  const terms = v128.load32_splat(at);
  return is<Zeros>() ? i16x8.shr_s(terms, 3) : terms;
}

/** The initial value of a block's sum. */
@inline
export function begin<Sum, Zeros>(terms: v128, block: usize): v128 {
  const all = is<Zeros>() ? i16x8.mul(terms, v128.load8x8_u(block, 80)) : terms;
  return sizeof<Sum>() === 2 ? all : i32x4.extadd_pairwise_i16x8_s(all);
}

@inline
export function blockBytes<Zeros>(): usize {
  return is<Zeros>() ? ZEROS_BLOCK_BYTES : BLOCK_BYTES;
}

/**
 * Adds two products of four levels with a word of a row: one for weights at even indices, and one for odd indices.
 */
@inline
export function add<Sum>(sum: v128, low: v128, high: v128, evens: v128, odds: v128): v128 {
  if (sizeof<Sum>() === 4) {
    return i32x4.relaxed_dot_i8x16_i7x16_add_s(
      odds,
      high,
      i32x4.relaxed_dot_i8x16_i7x16_add_s(evens, low, sum),
    );
  }
  // The sum cannot overflow. Each of its sixteen elements contributes at most 15 * 127 in magnitude: `-zero * x` in the
  // initial value, and `(level - zero) * x` once its product has been added.
  return i16x8.add(
    i16x8.add(sum, i16x8.relaxed_dot_i8x16_i7x16_s(evens, low)),
    i16x8.relaxed_dot_i8x16_i7x16_s(odds, high),
  );
}

/** Like {@linkcode add}, with weights in their stored order: the low halves of bytes before the high ones. */
@inline
export function addWeights<Sum>(sum: v128, weights: v128, mask: v128, evens: v128, odds: v128): v128 {
  const high = v128.and(i16x8.shr_u(weights, 4), mask);
  return add<Sum>(sum, v128.and(weights, mask), high, evens, odds);
}

/** Multiplies a block's sum by the row's scale. */
@inline
export function scaled<Sum>(block: v128, scale: v128): v128 {
  const whole = sizeof<Sum>() === 2 ? i32x4.extadd_pairwise_i16x8_s(block) : block;
  return f32x4.mul(f32x4.convert_i32x4_s(whole), scale);
}

/** Adds a block's scaled sum to the total of the previous blocks. */
@inline
export function addBlock<Sum>(sums: v128, block: v128, scale: v128, weightScales: v128): v128 {
  return f32x4.add(sums, f32x4.mul(scaled<Sum>(block, scale), weightScales));
}

/** Like {@linkcode addBlock}, with the sums of both parts of a row. */
@inline
export function addPair<Sum>(
  sums: v128,
  first: v128,
  second: v128,
  firstScale: v128,
  secondScale: v128,
  weightScales: v128,
): v128 {
  const both = f32x4.add(scaled<Sum>(first, firstScale), scaled<Sum>(second, secondScale));
  return f32x4.add(sums, f32x4.mul(both, weightScales));
}

/** Adds a block's sum to sums in memory. */
@inline
export function addBlockAt<Sum>(at: usize, block: v128, scale: v128, weightScales: v128): void {
  v128.store(at, addBlock<Sum>(v128.load(at), block, scale, weightScales));
}

/** Like {@linkcode addBlockAt}, with the sums of both parts of a row. */
@inline
export function addPairAt<Sum>(
  at: usize,
  first: v128,
  second: v128,
  firstScale: v128,
  secondScale: v128,
  weightScales: v128,
): void {
  v128.store(
    at,
    addPair<Sum>(v128.load(at), first, second, firstScale, secondScale, weightScales),
  );
}
