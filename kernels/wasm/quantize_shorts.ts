/**
 * Quantises rows to levels of 16 bits, which loses less than f16: the largest magnitude of 32 elements becomes 32,767.
 */
import { CHUNK, CHUNK_BYTES } from "./experts_layout";

/**
 * Rounds a row. A chunk is four vectors of eight i16, of elements 0, 4, 8, … and 1, 5, 9, … and so on, as weights lie in
 * words of 16 bits; then i32 sums of its halves, times `factor`, in the first and third of four lanes; then its scale
 * (f32).
 *
 * @param x f32 `[length]`, a multiple of 32.
 */
export function quantizeShorts(x: usize, length: u32, factor: i32, into: usize): void {
  for (const end = x + (<usize> length) * 4; x < end; x += CHUNK * 4, into += CHUNK_BYTES) {
    const most = findLargest(x);
    const scale = f32x4.splat(most > 0 ? 32767 / most : 0);
    const a = levels(x, scale);
    const b = levels(x + 32, scale);
    const c = levels(x + 64, scale);
    const d = levels(x + 96, scale);
    // Pairs of every second element, then every fourth.
    const evenFront = v128.shuffle<i16>(a, b, 0, 4, 8, 12, 2, 6, 10, 14);
    const evenBack = v128.shuffle<i16>(c, d, 0, 4, 8, 12, 2, 6, 10, 14);
    const oddFront = v128.shuffle<i16>(a, b, 1, 5, 9, 13, 3, 7, 11, 15);
    const oddBack = v128.shuffle<i16>(c, d, 1, 5, 9, 13, 3, 7, 11, 15);
    v128.store(into, v128.shuffle<i64>(evenFront, evenBack, 0, 2));
    v128.store(into, v128.shuffle<i64>(oddFront, oddBack, 0, 2), 16);
    v128.store(into, v128.shuffle<i64>(evenFront, evenBack, 1, 3), 32);
    v128.store(into, v128.shuffle<i64>(oddFront, oddBack, 1, 3), 48);
    store<i32>(into, sumBlock(a, b) * factor, 64);
    store<i32>(into, 0, 68);
    store<i32>(into, sumBlock(c, d) * factor, 72);
    store<i32>(into, 0, 76);
    store<f32>(into, most / 32767, 80);
  }
}

function findLargest(x: usize): f32 {
  let most = f32x4.abs(v128.load(x));
  for (let at: usize = 16; at < 128; at += 16) {
    most = f32x4.max(most, f32x4.abs(v128.load(x + at)));
  }
  most = f32x4.max(most, v128.shuffle<i32>(most, most, 2, 3, 0, 1));
  most = f32x4.max(most, v128.shuffle<i32>(most, most, 1, 0, 3, 2));
  return f32x4.extract_lane(most, 0);
}

/** Rounds eight elements. */
@inline
function levels(x: usize, scale: v128): v128 {
  return i16x8.narrow_i32x4_s(level(x, scale), level(x + 16, scale));
}

@inline
function level(x: usize, scale: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.mul(v128.load(x), scale)));
}

@inline
function sumBlock(a: v128, b: v128): i32 {
  let sums = i32x4.add(i32x4.extadd_pairwise_i16x8_s(a), i32x4.extadd_pairwise_i16x8_s(b));
  sums = i32x4.add(sums, v128.shuffle<i32>(sums, sums, 2, 3, 0, 1));
  sums = i32x4.add(sums, v128.shuffle<i32>(sums, sums, 1, 0, 3, 2));
  return i32x4.extract_lane(sums, 0);
}
