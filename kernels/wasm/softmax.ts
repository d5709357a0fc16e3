/** Computes the weights of one row's keys from their scores, which lie at `[at, end)`, a multiple of four. */
import { largestLane, sumOfLanes } from "./lanes";

export const LOG2_E: f32 = 1.44269504088896341;
/** `1.5 * 2 ** 23`: adding it to a number leaves no bits for a fraction, which rounds the number. */
const ROUNDER: f32 = 12582912;
/** Powers of two below this are not normal float32 numbers. */
const LOWEST: f32 = -126;

/** `a * b + c`, with a single rounding if the processor supports it. */
export function madd(a: v128, b: v128, c: v128): v128 {
  return f32x4.relaxed_madd(a, b, c);
}

/** The largest score. NaN is ignored here; it shows in the sum. */
export function findMax(at: usize, end: usize): f32 {
  let most = f32x4.splat(-f32.MAX_VALUE);
  for (; at < end; at += 16) most = f32x4.pmax(most, v128.load(at));
  return largestLane(most);
}

/**
 * Turns scores into softmax weights before division by their sum: `2 ** (scale * score - largest)`.
 *
 * @returns the sum.
 */
export function toWeights(at: usize, end: usize, scale: f32, largest: f32): f32 {
  const factor = f32x4.splat(scale);
  const shift = f32x4.splat(-largest);
  let sums = f32x4.splat(0);
  for (; at < end; at += 16) {
    const weights = exp2(madd(v128.load(at), factor, shift));
    v128.store(at, weights);
    sums = f32x4.add(sums, weights);
  }
  return sumOfLanes(sums);
}

/** `2 ** x` for `x ≤ 0`. */
export function exp2One(x: f32): f32 {
  return f32x4.extract_lane(exp2(f32x4.splat(x)), 0);
}

/** Sets scores so that they get no weight. */
export function hide(at: usize, end: usize): void {
  for (; at < end; at += 4) store<f32>(at, -Infinity);
}

/** `c * tanh(scale * score / c)`. */
export function cap(at: usize, end: usize, scale: f32, softcap: f32): void {
  const factor = f32x4.splat(scale / softcap);
  const most = f32x4.splat(softcap);
  for (; at < end; at += 16) {
    v128.store(at, f32x4.mul(most, tanh(f32x4.mul(v128.load(at), factor))));
  }
}

/**
 * `2 ** x` for `x ≤ 0`, with a relative error below 2e-7; 0 below -126. With `n` the integer nearest to `x`, a minimax
 * polynomial gives `2 ** (x - n)`, and `n` is added to its exponent.
 */
export function exp2(x: v128): v128 {
  const rounder = f32x4.splat(ROUNDER);
  // Its low bits are those of `n`.
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
