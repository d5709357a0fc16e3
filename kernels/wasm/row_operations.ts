/** The norm, the elementwise operations and the rotations of a row. */
import { activate, sumLanes } from "./vectors";

/**
 * `out = (x - mean) / sqrt(mean((x - mean)²) + epsilon) * gamma + beta`; the mean is 0 unless `isLayer`.
 *
 * @param x f32 `[k]`, where `k` is a multiple of 4. `gamma` and `beta` have the same shape; `beta` may be 0 for none,
 * and `out` may be `x`.
 */
export function normRow(
  x: usize,
  k: u32,
  isLayer: u32,
  epsilon: f32,
  gamma: usize,
  beta: usize,
  out: usize,
): void {
  const bytes = <usize> k * 4;
  const mean = isLayer ? sumRow(x, bytes) / <f32> k : 0;
  const factor = f32x4.splat(1 / sqrt<f32>(sumSquares(x, bytes, mean) / <f32> k + epsilon));
  const middle = f32x4.splat(mean);
  for (let at: usize = 0; at < bytes; at += 16) {
    let y = f32x4.mul(f32x4.sub(v128.load(x + at), middle), factor);
    y = f32x4.mul(y, v128.load(gamma + at));
    if (beta) y = f32x4.add(y, v128.load(beta + at));
    v128.store(out + at, y);
  }
}

function sumRow(x: usize, bytes: usize): f32 {
  let sums = f32x4.splat(0);
  for (const end = x + bytes; x < end; x += 16) sums = f32x4.add(sums, v128.load(x));
  return sumLanes(sums);
}

function sumSquares(x: usize, bytes: usize, mean: f32): f32 {
  const middle = f32x4.splat(mean);
  let sums = f32x4.splat(0);
  for (const end = x + bytes; x < end; x += 16) {
    const y = f32x4.sub(v128.load(x), middle);
    sums = f32x4.add(sums, f32x4.mul(y, y));
  }
  return sumLanes(sums);
}

/**
 * `out = scale * (activate(a) ∘ b)` for one row.
 *
 * @param operation 0 for none, 1 for a sum, 2 for a product, 3 for the maximum, 4 for the minimum.
 * @param out may be `a` or `b`.
 */
export function pointwiseRow(
  a: usize,
  b: usize,
  width: u32,
  operation: u32,
  activation: u32,
  scale: f32,
  out: usize,
): void {
  const whole = a + <usize> (width & ~3) * 4;
  for (; a < whole; a += 16, b += 16, out += 16) {
    const y = v128.load(b);
    v128.store(out, joined(v128.load(a), y, operation, activation, scale));
  }
  for (const end = whole + <usize> (width & 3) * 4; a < end; a += 4, b += 4, out += 4) {
    const y = v128.load32_splat(b);
    v128.store_lane<f32>(out, joined(v128.load32_splat(a), y, operation, activation, scale), 0);
  }
}

@inline
function joined(a: v128, b: v128, operation: u32, activation: u32, scale: f32): v128 {
  let x = activate(activation, a);
  if (operation === 1) x = f32x4.add(x, b);
  else if (operation === 2) x = f32x4.mul(x, b);
  else if (operation === 3) x = f32x4.max(x, b);
  else if (operation === 4) x = f32x4.min(x, b);
  return f32x4.mul(x, f32x4.splat(scale));
}

/**
 * Rotary position embeddings of the heads of a row.
 *
 * @param x f32 `[heads, headSize]`, like `out`.
 * @param cos f32 `[size / 2]`, like `sin`.
 */
export function rotateRow(
  x: usize,
  heads: u32,
  headSize: u32,
  size: u32,
  isInterleaved: u32,
  cos: usize,
  sin: usize,
  out: usize,
): void {
  const headBytes = <usize> headSize * 4;
  for (const end = out + heads * headBytes; out < end; out += headBytes) {
    for (const stop = x + headBytes; x < stop; x += 16) {
      v128.store(out + headBytes - (stop - x), v128.load(x));
    }
    if (isInterleaved) rotateNeighbours(out, cos, sin, size);
    else rotateHalves(out, cos, sin, size);
  }
}

/** Rotates element `i` of a head, in place, together with element `i + size / 2`. */
export function rotateHalves(first: usize, cos: usize, sin: usize, size: u32): void {
  const half = <usize> size * 2;
  const end = first + half;
  for (const whole = first + (half & ~15); first < whole; first += 16, cos += 16, sin += 16) {
    const c = v128.load(cos);
    const s = v128.load(sin);
    const x = v128.load(first);
    const y = v128.load(first + half);
    v128.store(first, f32x4.sub(f32x4.mul(x, c), f32x4.mul(y, s)));
    v128.store(first + half, f32x4.add(f32x4.mul(y, c), f32x4.mul(x, s)));
  }
  for (; first < end; first += 4, cos += 4, sin += 4) rotatePair(first, first + half, cos, sin);
}

/** Like {@linkcode rotateHalves}, for neighbouring elements; two pairs at a time. */
export function rotateNeighbours(pairs: usize, cos: usize, sin: usize, size: u32): void {
  const signs = f32x4(-1, 1, -1, 1);
  const end = pairs + <usize> size * 4;
  for (const whole = pairs + <usize> (size & ~3) * 4; pairs < whole; pairs += 16, cos += 8, sin += 8) {
    const c = twice(v128.load64_zero(cos));
    const s = f32x4.mul(twice(v128.load64_zero(sin)), signs);
    const xy = v128.load(pairs);
    const yx = v128.shuffle<f32>(xy, xy, 1, 0, 3, 2);
    v128.store(pairs, f32x4.add(f32x4.mul(xy, c), f32x4.mul(yx, s)));
  }
  if (pairs < end) rotatePair(pairs, pairs + 4, cos, sin);
}

@inline
function rotatePair(first: usize, second: usize, cos: usize, sin: usize): void {
  const c = load<f32>(cos);
  const s = load<f32>(sin);
  const x = load<f32>(first);
  const y = load<f32>(second);
  store<f32>(first, x * c - y * s);
  store<f32>(second, y * c + x * s);
}

/** `a, a, b, b` from `a, b, …`. */
function twice(two: v128): v128 {
  return v128.shuffle<f32>(two, two, 0, 0, 1, 1);
}
