/**
 * Functions of vectors: shuffles and sums across lanes, exponentials, and activations by their numbers in
 * `../common/activation.ts`.
 */

/**
 * The first word of a vector in all four lanes. Four words that lie side by side are loaded at once and spread: every
 * load of WebAssembly checks its address, a shuffle does not.
 */
@inline
export function spread0(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 0, 0, 0, 0);
}

@inline
export function spread1(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 1, 1, 1, 1);
}

@inline
export function spread2(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 2, 2, 2, 2);
}

@inline
export function spread3(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 3, 3, 3, 3);
}

/** Transposes four rows of four words, which are `stride` bytes apart, to rows `rowBytes` apart. */
@inline
export function transpose(from: usize, stride: usize, into: usize, rowBytes: usize): void {
  const a = v128.load(from);
  const b = v128.load(from + stride);
  const c = v128.load(from + 2 * stride);
  const d = v128.load(from + 3 * stride);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const ab2 = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const cd2 = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(into, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(into + rowBytes, v128.shuffle<i64>(ab, cd, 1, 3));
  v128.store(into + 2 * rowBytes, v128.shuffle<i64>(ab2, cd2, 0, 2));
  v128.store(into + 3 * rowBytes, v128.shuffle<i64>(ab2, cd2, 1, 3));
}

/** The largest of four lanes, or NaN if one is. */
export function largestLane(x: v128): f32 {
  return max(
    max(f32x4.extract_lane(x, 0), f32x4.extract_lane(x, 1)),
    max(f32x4.extract_lane(x, 2), f32x4.extract_lane(x, 3)),
  );
}

export function sumLanes(x: v128): f32 {
  return (f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1)) +
    (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3));
}

export const LOG2_E: f32 = 1.44269504088896341;
/** `1.5 * 2 ** 23`: adding it to a number leaves no bits for a fraction, which rounds the number. */
const ROUNDER: f32 = 12582912;
/** Powers of two with an exponent below this are not normal float32 numbers. */
const LOWEST: f32 = -126;

/** `a * b + c`, with a single rounding if the processor supports it. */
export function madd(a: v128, b: v128, c: v128): v128 {
  return f32x4.relaxed_madd(a, b, c);
}

/**
 * `2 ** x` for `x ≤ 126`, with a relative error below 2e-7; 0 below -126. With `n` the integer nearest to `x`, a
 * minimax polynomial gives `2 ** (x - n)`, and `n` is added to the exponent of that number.
 */
export function exp2(x: v128): v128 {
  const rounder = f32x4.splat(ROUNDER);
  // `rounded` and `n` have the same low bits.
  const rounded = f32x4.add(x, rounder);
  const f = f32x4.sub(x, f32x4.sub(rounded, rounder));
  let p = f32x4.splat(1.3264727193e-3);
  p = madd(p, f, f32x4.splat(9.6715126399e-3));
  p = madd(p, f, f32x4.splat(5.5507337433e-2));
  p = madd(p, f, f32x4.splat(2.4022242085e-1));
  p = madd(p, f, f32x4.splat(6.9314697760e-1));
  p = madd(p, f, f32x4.splat(1));
  const power = i32x4.add(p, i32x4.shl(rounded, 23));
  return v128.andnot(power, f32x4.lt(x, f32x4.splat(LOWEST)));
}

/** Computed as `(1 - e) / (1 + e)` with `e = exp(-2|x|)`; the absolute error is below 2e-7. */
export function tanh(x: v128): v128 {
  const one = f32x4.splat(1);
  const e = exp2(f32x4.mul(f32x4.abs(x), f32x4.splat(-2 * LOG2_E)));
  const magnitude = f32x4.div(f32x4.sub(one, e), f32x4.add(one, e));
  return v128.bitselect(x, magnitude, f32x4.splat(-0.0));
}

export const SILU: u32 = 1;
const GELU: u32 = 2;
const GELU_TANH: u32 = 3;
const GELU_SIGMOID: u32 = 4;
const RELU: u32 = 5;
const RELU_SQUARED: u32 = 6;
const TANH: u32 = 7;
const SIGMOID: u32 = 8;
const EXP: u32 = 9;
const SOFTPLUS: u32 = 10;
const ELU: u32 = 11;

/** `c * tanh(x / c)`; `x` if `c` is 0. */
export function cap(x: v128, c: f32): v128 {
  if (c === 0) return x;
  const size = f32x4.splat(c);
  return f32x4.mul(tanh(f32x4.div(x, size)), size);
}

/** √(8 / π), and 0.044715 times that. */
const GELU_LINEAR: f32 = 1.5957691216057308;
const GELU_CUBIC: f32 = 0.07135481282553303;

export function activate(kind: u32, x: v128): v128 {
  if (kind === SILU) return silu(x);
  if (kind === GELU_SIGMOID) return f32x4.mul(x, sigmoid(f32x4.mul(x, f32x4.splat(1.702))));
  if (kind === GELU_TANH) {
    // (1 + tanh(y)) / 2 is the sigmoid of 2y.
    const squares = f32x4.mul(f32x4.mul(x, x), f32x4.splat(GELU_CUBIC));
    return f32x4.mul(x, sigmoid(f32x4.mul(x, f32x4.add(f32x4.splat(GELU_LINEAR), squares))));
  }
  if (kind === GELU) return gelu(x);
  if (kind === TANH) return tanh(x);
  if (kind === SIGMOID) return sigmoid(x);
  if (kind === EXP) return exp(x);
  if (kind === SOFTPLUS) return softplus(x);
  if (kind === ELU) return elu(x);
  if (kind !== RELU && kind !== RELU_SQUARED) return x;
  const positive = f32x4.max(x, f32x4.splat(0));
  return kind === RELU ? positive : f32x4.mul(positive, positive);
}

/**
 * `max(x, 0) - |x| / 2 * erfc(|x| / √2)`, with formula 7.1.26 of Abramowitz and Stegun for erfc, whose error is below
 * 1.5e-7.
 */
function gelu(x: v128): v128 {
  const one = f32x4.splat(1);
  const size = f32x4.abs(x);
  // 0.3275911 / √2.
  const t = f32x4.div(one, madd(size, f32x4.splat(0.23164189), one));
  let p = f32x4.splat(1.061405429);
  p = madd(p, t, f32x4.splat(-1.453152027));
  p = madd(p, t, f32x4.splat(1.421413741));
  p = madd(p, t, f32x4.splat(-0.284496736));
  p = madd(p, t, f32x4.splat(0.254829592));
  const e = exp2(f32x4.mul(f32x4.mul(x, x), f32x4.splat(-0.5 * LOG2_E)));
  const erfc = f32x4.mul(f32x4.mul(p, t), e);
  const half = f32x4.mul(size, f32x4.splat(0.5));
  return f32x4.sub(f32x4.max(x, f32x4.splat(0)), f32x4.mul(half, erfc));
}

/** `x / (1 + exp(-x))`. The exponent is limited to 126 / log2(e), so that the exponential does not overflow. */
export function silu(x: v128): v128 {
  const power = f32x4.pmin(f32x4.mul(x, f32x4.splat(-LOG2_E)), f32x4.splat(126));
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp2(power)));
}

/** `x` if it is positive, otherwise `exp(x) - 1`. */
function elu(x: v128): v128 {
  const zero = f32x4.splat(0);
  const e = exp2(f32x4.mul(f32x4.min(x, zero), f32x4.splat(LOG2_E)));
  return f32x4.add(f32x4.max(x, zero), f32x4.sub(e, f32x4.splat(1)));
}

/** Positive numbers use the reciprocal of `exp(-x)`. */
function exp(x: v128): v128 {
  const e = exp2(f32x4.mul(f32x4.abs(x), f32x4.splat(-LOG2_E)));
  const inverse = f32x4.div(f32x4.splat(1), e);
  return v128.bitselect(inverse, e, f32x4.gt(x, f32x4.splat(0)));
}

/**
 * `max(x, 0) + log(1 + e)` with `e = exp(-|x|)`; the logarithm by its series in `e / (2 + e)`, which is at most 1/3.
 */
function softplus(x: v128): v128 {
  const e = exp2(f32x4.mul(f32x4.abs(x), f32x4.splat(-LOG2_E)));
  const s = f32x4.div(e, f32x4.add(e, f32x4.splat(2)));
  const q = f32x4.mul(s, s);
  let p = f32x4.splat(2 / 11);
  p = madd(p, q, f32x4.splat(2 / 9));
  p = madd(p, q, f32x4.splat(2 / 7));
  p = madd(p, q, f32x4.splat(0.4));
  p = madd(p, q, f32x4.splat(2 / 3));
  p = madd(p, q, f32x4.splat(2));
  return madd(p, s, f32x4.max(x, f32x4.splat(0)));
}

/** Uses the exponential of `-|x|`, which does not overflow. */
export function sigmoid(x: v128): v128 {
  const one = f32x4.splat(1);
  const e = exp2(f32x4.mul(f32x4.abs(x), f32x4.splat(-LOG2_E)));
  const numerator = v128.bitselect(e, one, f32x4.lt(x, f32x4.splat(0)));
  return f32x4.div(numerator, f32x4.add(one, e));
}
