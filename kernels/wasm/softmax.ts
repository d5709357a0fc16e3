/** The weights of one row's keys from their scores. */

const LOG2_E: f32 = 1.44269504088896341;
/** `ln 2` in two parts: products of the first with small integers are exact. */
const LN_2_HIGH: f32 = 0.693359375;
const LN_2_LOW: f32 = -2.12194440e-4;
/** `1.5 * 2 ** 23`. */
const ROUNDER: f32 = 12582912;
/** Below it a float32 underflows. */
const LOWEST: f32 = -87;

/** `a * b + c`, rounded once where the processor can. */
export function madd(a: v128, b: v128, c: v128): v128 {
  return f32x4.relaxed_madd(a, b, c);
}

/**
 * Turns scores into weights of a softmax that are not yet divided by their sum.
 *
 * @param scores f32 `[count]`, products of query and key; `count` is a multiple of 4. Those outside `[first, end)` may
 * hold anything, and get weight 0.
 * @param sink where a logit lies that joins the sum; 0 for none.
 * @returns the sum.
 */
export function toWeights(
  scores: usize,
  count: u32,
  first: u32,
  end: u32,
  scale: f32,
  softcap: f32,
  sink: usize,
): f32 {
  const last = scores + <usize> count * 4;
  if (softcap > 0) {
    cap(scores, last, scale, softcap);
    scale = 1;
  }
  hide(scores, scores + <usize> first * 4);
  hide(scores + <usize> end * 4, last);

  // A NaN is not the largest; it comes through in the sum.
  let most = f32x4.splat(-f32.MAX_VALUE);
  for (let at = scores; at < last; at += 16) most = f32x4.pmax(most, v128.load(at));
  let largest: f32 = scale * largestLane(most);
  if (sink) largest = max(largest, load<f32>(sink));

  const factor = f32x4.splat(scale);
  const shift = f32x4.splat(-largest);
  let sums = f32x4.splat(0);
  for (let at = scores; at < last; at += 16) {
    const weights = exp(madd(v128.load(at), factor, shift));
    v128.store(at, weights);
    sums = f32x4.add(sums, weights);
  }
  let total = sumOfLanes(sums);
  if (sink) total += f32x4.extract_lane(exp(f32x4.splat(load<f32>(sink) - largest)), 0);
  return total;
}

function hide(at: usize, end: usize): void {
  for (; at < end; at += 4) store<f32>(at, -Infinity);
}

/** `c * tanh(scale * score / c)`. */
function cap(at: usize, end: usize, scale: f32, softcap: f32): void {
  const factor = f32x4.splat(scale / softcap);
  const most = f32x4.splat(softcap);
  for (; at < end; at += 16) {
    v128.store(at, f32x4.mul(most, tanh(f32x4.mul(v128.load(at), factor))));
  }
}

function largestLane(x: v128): f32 {
  return max(
    max(f32x4.extract_lane(x, 0), f32x4.extract_lane(x, 1)),
    max(f32x4.extract_lane(x, 2), f32x4.extract_lane(x, 3)),
  );
}

function sumOfLanes(x: v128): f32 {
  return (f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1)) +
    (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3));
}

/**
 * `e ** x` for `x ≤ 0`, relative error below 2e-7; 0 below -87. `e ** x = 2 ** n * e ** r` with the integer `n` that
 * leaves the smallest `r`; the polynomial is that of expf in Cephes (Moshier, 1989). `ROUNDER` leaves no room for
 * fractions: the integer stands in the sum's low bits.
 */
function exp(x: v128): v128 {
  const rounder = f32x4.splat(ROUNDER);
  const sum = madd(x, f32x4.splat(LOG2_E), rounder);
  const n = f32x4.sub(sum, rounder);
  let r = madd(n, f32x4.splat(-LN_2_HIGH), x);
  r = madd(n, f32x4.splat(-LN_2_LOW), r);
  let p = f32x4.splat(1.9875691500e-4);
  p = madd(p, r, f32x4.splat(1.3981999507e-3));
  p = madd(p, r, f32x4.splat(8.3334519073e-3));
  p = madd(p, r, f32x4.splat(4.1665795894e-2));
  p = madd(p, r, f32x4.splat(1.6666665459e-1));
  p = madd(p, r, f32x4.splat(5.0000001201e-1));
  p = f32x4.add(madd(p, f32x4.mul(r, r), r), f32x4.splat(1));
  const power = i32x4.add(i32x4.shl(sum, 23), i32x4.splat(127 << 23));
  return v128.andnot(f32x4.mul(p, power), f32x4.lt(x, f32x4.splat(LOWEST)));
}

/** By `(1 - e) / (1 + e)` with `e = exp(-2|x|)`, absolute error below 2e-7. */
function tanh(x: v128): v128 {
  const one = f32x4.splat(1);
  const e = exp(f32x4.mul(f32x4.abs(x), f32x4.splat(-2)));
  const magnitude = f32x4.div(f32x4.sub(one, e), f32x4.add(one, e));
  return v128.bitselect(x, magnitude, f32x4.splat(-0.0));
}
