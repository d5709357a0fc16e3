/**
 * Sums of a block's products, for {@linkcode multiply}.
 *
 * `Sum` is what they are kept in, with the same results. In i16 two products of 8 bits are an instruction on x64, and four
 * in i32 are three or more; where a processor has an instruction for four (ARM), i32 is less work.
 *
 * `Zeros` tells whether blocks have zero points.
 */
import { BLOCK_BYTES, ZEROS_BLOCK_BYTES } from "./product_layout";

/** Answers to what a type argument asks. */
export type Yes = u8;
export type No = u16;

@inline
export function is<Answer>(): bool {
  return sizeof<Answer>() === sizeof<Yes>();
}

/** Terms of a row's block, two i16 as `quantizeRow` writes them: what a zero point of 8 takes off, or of 1 if there are such. */
@inline
export function loadTerms<Zeros>(at: usize): v128 {
  const terms = v128.load32_splat(at);
  return is<Zeros>() ? i16x8.shr_s(terms, 3) : terms;
}

/** What a block's sum begins with. */
@inline
export function begin<Sum, Zeros>(terms: v128, block: usize): v128 {
  const all = is<Zeros>() ? i16x8.mul(terms, v128.load8x8_u(block, 80)) : terms;
  return sizeof<Sum>() === 2 ? all : i32x4.extadd_pairwise_i16x8_s(all);
}

@inline
export function blockBytes<Zeros>(): usize {
  return is<Zeros>() ? ZEROS_BLOCK_BYTES : BLOCK_BYTES;
}

/** Two products of four levels each with those of a word of a row: weights of even and of odd numbers. */
@inline
export function add<Sum>(sum: v128, low: v128, high: v128, evens: v128, odds: v128): v128 {
  if (sizeof<Sum>() === 4) {
    return i32x4.relaxed_dot_i8x16_i7x16_add_s(
      odds,
      high,
      i32x4.relaxed_dot_i8x16_i7x16_add_s(evens, low, sum),
    );
  }
  // Sixteen products of at most 15 * 127, and what they begin with is at most 8 * 16 * 127.
  return i16x8.add(
    i16x8.add(sum, i16x8.relaxed_dot_i8x16_i7x16_s(evens, low)),
    i16x8.relaxed_dot_i8x16_i7x16_s(odds, high),
  );
}

/** The same with weights as they are stored: the low halves of bytes before the high ones. */
@inline
export function addWeights<Sum>(sum: v128, weights: v128, mask: v128, evens: v128, odds: v128): v128 {
  const high = v128.and(i16x8.shr_u(weights, 4), mask);
  return add<Sum>(sum, v128.and(weights, mask), high, evens, odds);
}

/** A sum of a block times the row's scale. */
@inline
export function scaled<Sum>(block: v128, scale: v128): v128 {
  const whole = sizeof<Sum>() === 2 ? i32x4.extadd_pairwise_i16x8_s(block) : block;
  return f32x4.mul(f32x4.convert_i32x4_s(whole), scale);
}

/** A sum of a block added to those of the blocks before it. */
@inline
export function addBlock<Sum>(sums: v128, block: v128, scale: v128, weightScales: v128): v128 {
  return f32x4.add(sums, f32x4.mul(scaled<Sum>(block, scale), weightScales));
}

/** The same with the sums of the two parts of a row. */
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

/** A sum of a block added to those in memory. */
@inline
export function addBlockAt<Sum>(at: usize, block: v128, scale: v128, weightScales: v128): void {
  v128.store(at, addBlock<Sum>(v128.load(at), block, scale, weightScales));
}

/** The sums of the two parts of a row, likewise. */
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
