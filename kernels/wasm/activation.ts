/** Activations by their numbers in `../common/activation.ts`. */
import { exp2, LOG2_E, madd, tanh } from "./softmax";

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

/** `x / (1 + exp(-x))`, the exponential of 126 / log2(e) at most. */
export function silu(x: v128): v128 {
  const power = f32x4.pmin(f32x4.mul(x, f32x4.splat(-LOG2_E)), f32x4.splat(126));
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp2(power)));
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
