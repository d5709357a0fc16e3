/**
 * The alpha of RGBA pixels, four at a time.
 *
 * A composite multiplies the alpha of an image row by a mask from 0 to 1, rounding half up; NaN counts as 0. Pixels
 * whose alpha becomes 0 also lose their colours. Up to 3 pixels after the last are read and written.
 */

/** Whether all pixels are opaque. Up to 12 bytes after the last are read, which must not look transparent. */
export function isOpaque(pixels: usize, numPixels: usize): bool {
  let all = i8x16.splat(-1);
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16) {
    all = v128.and(all, v128.load(pixels));
  }
  return i32x4.all_true(i32x4.eq(i32x4.shr_s(all, 24), i32x4.splat(-1)));
}

/** RGBA as RGB. Up to 12 bytes after the last are read, and up to 16 after the output written. */
export function dropAlpha(pixels: usize, numPixels: usize, output: usize): void {
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16, output += 12) {
    // deno-fmt-ignore
    const colors = i8x16(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    v128.store(output, i8x16.swizzle(v128.load(pixels), colors));
  }
}

/** `upper * above + lower * below`. */
export function mixRows(
  above: usize,
  upper: f32,
  below: usize,
  lower: f32,
  numPixels: usize,
  output: usize,
): void {
  const first = f32x4.splat(upper);
  const second = f32x4.splat(lower);
  for (let at: usize = 0; at < numPixels * 4; at += 16) {
    const sum = f32x4.add(
      f32x4.mul(first, v128.load(above + at)),
      f32x4.mul(second, v128.load(below + at)),
    );
    v128.store(output + at, sum);
  }
}

/** @param output RGBA. */
export function compositeRgb(colors: usize, mask: usize, numPixels: usize, output: usize): void {
  for (const end = output + numPixels * 4; output < end; colors += 12, mask += 16, output += 16) {
    const alpha = round(f32x4.mul(clamp(v128.load(mask)), f32x4.splat(255)));
    // deno-fmt-ignore
    const rgba = i8x16.swizzle(
      v128.load(colors), i8x16(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    store4(output, rgba, alpha);
  }
}

/** @param output RGBA, not the input. */
export function compositeRgba(pixels: usize, mask: usize, numPixels: usize, output: usize): void {
  for (const end = output + numPixels * 4; output < end; pixels += 16, mask += 16, output += 16) {
    const rgba = v128.load(pixels);
    const own = f32x4.convert_i32x4_s(i32x4.shr_u(rgba, 24));
    const alpha = round(f32x4.mul(clamp(v128.load(mask)), own));
    store4(output, v128.and(rgba, i32x4.splat(0xffffff)), alpha);
  }
}

// @ts-ignore: decorator
@inline
function clamp(sum: v128): v128 {
  const isPositive = f32x4.gt(sum, f32x4.splat(0));
  return f32x4.pmin(f32x4.splat(1), v128.and(sum, isPositive));
}

// @ts-ignore: decorator
@inline
function round(level: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.add(level, f32x4.splat(0.5)));
}

// @ts-ignore: decorator
@inline
function store4(at: usize, colors: v128, alpha: v128): void {
  const seen = v128.and(colors, i32x4.gt_s(alpha, i32x4.splat(0)));
  v128.store(at, v128.or(seen, i32x4.shl(alpha, 24)));
}
