/**
 * Per-pixel kernels in WebAssembly SIMD: alpha and resizing here, PNG's row filters in `png.ts`. AssemblyScript, built
 * by `deno task wasm`.
 *
 * Alpha: the kernels process four RGBA pixels at a time. A composite multiplies the alpha of an image row by a mask
 * from 0 to 1, rounding half up; NaN counts as 0. Pixels whose alpha becomes 0 also lose their colours. Up to 3 pixels
 * after the last are read and written.
 *
 * Resizing: two passes over 8-bit pixels, with 32-bit weights of 22 fractional bits. A weight comes as two 16-bit
 * numbers, `high * 4096 + low`, so that two products and their sum are one instruction. The 32-bit sums of both parts
 * may wrap around, but the total does not.
 */
export { filterRows, sumBytes, unfilterRow } from "./png";

/** Whether all pixels are opaque. Up to 12 bytes after the last are read, which must not look transparent. */
export function isOpaque(pixels: usize, numPixels: usize): bool {
  let all = i8x16.splat(-1);
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16) {
    all = v128.and(all, v128.load(pixels));
  }
  return i32x4.all_true(i32x4.eq(i32x4.shr_s(all, 24), i32x4.splat(-1)));
}

/** Converts RGBA to RGB. Up to 12 bytes after the last are read, and up to 16 after the output are written. */
export function dropAlpha(pixels: usize, numPixels: usize, output: usize): void {
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16, output += 12) {
    // deno-fmt-ignore
    const colors = i8x16(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    v128.store(output, i8x16.swizzle(v128.load(pixels), colors));
  }
}

/** Computes `upper * above + lower * below`. */
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

const LOW_BITS: i32 = 12;
const FRACTION_BITS: i32 = 22;
const HALF: i32 = 1 << (FRACTION_BITS - 1);

/**
 * Resizes rows of pixels to another width. For each output, one word gives its first input, and the next word the
 * number of its inputs. Weights are `i16 [outputs, 2, stride]`, high parts before low ones; weights beyond the number
 * of inputs are 0.
 *
 * Up to 32 bytes after the input are read, and up to 3 after the output are written.
 *
 * @param stride a multiple of 8.
 */
export function shrinkRows(
  input: usize,
  inputBytes: usize,
  numRows: u32,
  channels: u32,
  output: usize,
  numOutputs: u32,
  spans: usize,
  weights: usize,
  stride: u32,
): void {
  const lowAt = <usize> stride * 2;
  for (let row: u32 = 0; row < numRows; row++, input += inputBytes) {
    let weight = weights;
    for (let x: u32 = 0; x < numOutputs; x++, weight += 2 * lowAt) {
      const span = spans + <usize> x * 8;
      const from = input + <usize> load<u32>(span) * channels;
      const count = load<u32>(span, 4);
      if (channels === 3) {
        v128.store32_lane(output, shrinkPixel(from, 12, RGB_01, RGB_23, weight, lowAt, count), 0);
      } else if (channels === 4) {
        v128.store32_lane(output, shrinkPixel(from, 16, RGBA_01, RGBA_23, weight, lowAt, count), 0);
      } else if (channels === 1) {
        store<u8>(output, shrinkLevel(from, weight, lowAt, count));
      } else {
        v128.store32_lane(output, shrinkPixel(from, 8, TWO_01, TWO_23, weight, lowAt, count), 0);
      }
      output += channels;
    }
  }
}

/**
 * Masks that interleave the bytes of two neighbouring pixels, channel by channel, as 16-bit numbers; index -1 gives 0.
 */
// deno-fmt-ignore
const RGB_01 = i8x16(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
// deno-fmt-ignore
const RGB_23 = i8x16(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
// deno-fmt-ignore
const RGBA_01 = i8x16(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
// deno-fmt-ignore
const RGBA_23 = i8x16(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
// deno-fmt-ignore
const TWO_01 = i8x16(0, -1, 2, -1, 1, -1, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1);
// deno-fmt-ignore
const TWO_23 = i8x16(4, -1, 6, -1, 5, -1, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1);

/** Computes one pixel of up to four channels, from four neighbours at a time. */
// @ts-ignore: decorator
@inline
function shrinkPixel(
  from: usize,
  fourPixels: usize,
  first: v128,
  second: v128,
  weight: usize,
  lowAt: usize,
  count: u32,
): v128 {
  let high = i32x4.splat(0);
  let low = i32x4.splat(HALF);
  for (let k: u32 = 0; k < count; k += 4, from += fourPixels, weight += 8) {
    const pixels = v128.load(from);
    const a = i8x16.swizzle(pixels, first);
    const b = i8x16.swizzle(pixels, second);
    high = i32x4.add(high, i32x4.dot_i16x8_s(a, v128.load32_splat(weight)));
    low = i32x4.add(low, i32x4.dot_i16x8_s(a, v128.load32_splat(weight + lowAt)));
    high = i32x4.add(high, i32x4.dot_i16x8_s(b, v128.load32_splat(weight, 4)));
    low = i32x4.add(low, i32x4.dot_i16x8_s(b, v128.load32_splat(weight + lowAt, 4)));
  }
  const levels = i32x4.shr_s(i32x4.add(i32x4.shl(high, LOW_BITS), low), FRACTION_BITS);
  const words = i16x8.narrow_i32x4_s(levels, levels);
  return i8x16.narrow_i16x8_u(words, words);
}

/** Computes one level from eight neighbours at a time. */
// @ts-ignore: decorator
@inline
function shrinkLevel(from: usize, weight: usize, lowAt: usize, count: u32): u8 {
  let high = i32x4.splat(0);
  let low = i32x4.splat(0);
  for (let k: u32 = 0; k < count; k += 8, from += 8, weight += 16) {
    const levels = v128.load8x8_u(from);
    high = i32x4.add(high, i32x4.dot_i16x8_s(levels, v128.load(weight)));
    low = i32x4.add(low, i32x4.dot_i16x8_s(levels, v128.load(weight + lowAt)));
  }
  const sums = i32x4.add(i32x4.shl(high, LOW_BITS), low);
  const sum = i32x4.extract_lane(sums, 0) + i32x4.extract_lane(sums, 1) +
    i32x4.extract_lane(sums, 2) + i32x4.extract_lane(sums, 3);
  return <u8> max(0, min(255, (sum + HALF) >> FRACTION_BITS));
}

/**
 * Adds weighted rows to 32-bit sums, two rows and 16 bytes at a time. Up to 15 bytes after each row are read, and up to
 * 15 sums after the last are written.
 *
 * @param weights i16 `[numPairs, 2, 2]`: for each pair of rows the two high parts, then the two low ones.
 */
export function addRows(
  rows: usize,
  rowBytes: usize,
  numPairs: u32,
  weights: usize,
  sums: usize,
): void {
  const zero = i32x4.splat(0);
  for (let at: usize = 0; at < rowBytes; at += 16, sums += 64) {
    let h0 = zero, h1 = zero, h2 = zero, h3 = zero;
    let l0 = v128.load(sums), l1 = v128.load(sums, 16);
    let l2 = v128.load(sums, 32), l3 = v128.load(sums, 48);
    let row = rows + at;
    let weight = weights;
    for (let pair: u32 = 0; pair < numPairs; pair++, row += 2 * rowBytes, weight += 8) {
      const a = v128.load(row);
      const b = v128.load(row + rowBytes);
      const high = v128.load32_splat(weight);
      const low = v128.load32_splat(weight, 4);
      // deno-fmt-ignore
      const left = v128.shuffle<u8>(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      // deno-fmt-ignore
      const right = v128.shuffle<u8>(
        a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      const p0 = i16x8.extend_low_i8x16_u(left), p1 = i16x8.extend_high_i8x16_u(left);
      const p2 = i16x8.extend_low_i8x16_u(right), p3 = i16x8.extend_high_i8x16_u(right);
      h0 = i32x4.add(h0, i32x4.dot_i16x8_s(p0, high));
      h1 = i32x4.add(h1, i32x4.dot_i16x8_s(p1, high));
      h2 = i32x4.add(h2, i32x4.dot_i16x8_s(p2, high));
      h3 = i32x4.add(h3, i32x4.dot_i16x8_s(p3, high));
      l0 = i32x4.add(l0, i32x4.dot_i16x8_s(p0, low));
      l1 = i32x4.add(l1, i32x4.dot_i16x8_s(p1, low));
      l2 = i32x4.add(l2, i32x4.dot_i16x8_s(p2, low));
      l3 = i32x4.add(l3, i32x4.dot_i16x8_s(p3, low));
    }
    v128.store(sums, i32x4.add(l0, i32x4.shl(h0, LOW_BITS)));
    v128.store(sums, i32x4.add(l1, i32x4.shl(h1, LOW_BITS)), 16);
    v128.store(sums, i32x4.add(l2, i32x4.shl(h2, LOW_BITS)), 32);
    v128.store(sums, i32x4.add(l3, i32x4.shl(h3, LOW_BITS)), 48);
  }
}

/** Rounds sums to levels, and resets the sums to 0. Up to 15 bytes after the output are written. */
export function clipRow(sums: usize, numBytes: usize, output: usize): void {
  for (const end = output + numBytes; output < end; output += 16, sums += 64) {
    const left = i16x8.narrow_i32x4_s(clip(sums), clip(sums + 16));
    const right = i16x8.narrow_i32x4_s(clip(sums + 32), clip(sums + 48));
    v128.store(output, i8x16.narrow_i16x8_u(left, right));
  }
}

// @ts-ignore: decorator
@inline
function clip(sums: usize): v128 {
  const levels = i32x4.shr_s(i32x4.add(v128.load(sums), i32x4.splat(HALF)), FRACTION_BITS);
  v128.store(sums, i32x4.splat(0));
  return levels;
}
