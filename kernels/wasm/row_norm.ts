/** The norm of a row. */

/**
 * `out = (x - mean) / sqrt(mean((x - mean)²) + epsilon) * gamma + beta`; the mean is 0 unless `isLayer`.
 *
 * @param x f32 `[k]`, a multiple of 4. `gamma` and `beta` have the same shape; `beta` may be 0 for none, and `out` may
 * be `x`.
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
  return sumOfLanes(sums);
}

function sumSquares(x: usize, bytes: usize, mean: f32): f32 {
  const middle = f32x4.splat(mean);
  let sums = f32x4.splat(0);
  for (const end = x + bytes; x < end; x += 16) {
    const y = f32x4.sub(v128.load(x), middle);
    sums = f32x4.add(sums, f32x4.mul(y, y));
  }
  return sumOfLanes(sums);
}

function sumOfLanes(x: v128): f32 {
  return (f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1)) +
    (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3));
}
