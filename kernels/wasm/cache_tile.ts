/**
 * Tiles of keys and values in 8 bits: `TILE * headSize` elements as 127ths of the largest magnitude of their head and
 * token, in the order of tiles in f32, then f32 `[TILE]`, a 127th of each largest magnitude.
 */
import { TILE } from "./layout";

const LARGEST: f32 = 127;
const MOST_HALF: f32 = 65504;

/** Where the scales of a tile are. */
@inline
export function scalesOf(tile: usize, headSize: u32): usize {
  return tile + <usize> headSize * TILE;
}

/** Writes a key to slot `slot` of a tile. @param from f32 `[headSize]`. */
export function quantizeKey(from: usize, headSize: u32, tile: usize, slot: u32): void {
  quantize(from, headSize, tile + slot, TILE, scalesOf(tile, headSize) + (<usize> slot << 2));
}

/** Writes a value to slot `slot` of a tile. @param from f32 `[headSize]`. */
export function quantizeValue(from: usize, headSize: u32, tile: usize, slot: u32): void {
  const scale = scalesOf(tile, headSize) + (<usize> slot << 2);
  quantize(from, headSize, tile + <usize> slot * headSize, 1, scale);
}

function quantize(from: usize, headSize: u32, to: usize, stride: usize, scaleAt: usize): void {
  let most = f32x4.splat(0);
  const end = from + (<usize> headSize << 2);
  for (let at = from; at < end; at += 16) most = f32x4.max(most, f32x4.abs(v128.load(at)));
  const largest = max(
    max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
  );
  const scale = roundToHalf(largest) / LARGEST;
  store<f32>(scaleAt, scale);
  const inverse: f32 = scale > 0 ? 1 / scale : 0;
  for (let at = from; at < end; at += 4, to += stride) {
    store<i8>(to, <i8> nearest(load<f32>(at) * inverse));
  }
}

/** The nearest number with the eleven bits that an f16 has, as GPUs keep scales. */
@inline
function roundToHalf(x: f32): f32 {
  const bits = reinterpret<u32>(min(x, MOST_HALF));
  return reinterpret<f32>((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
}

/** Sixteen elements as f32, four vectors. */
@inline
function widen(bytes: v128, into: usize, s0: v128, s1: v128, s2: v128, s3: v128): void {
  const low = i16x8.extend_low_i8x16_s(bytes);
  const high = i16x8.extend_high_i8x16_s(bytes);
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(low)), s0));
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(low)), s1), 16);
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(high)), s2), 32);
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(high)), s3), 48);
}

/** The keys of a tile, f32 `[headSize, TILE]`. */
export function widenKeys(tile: usize, headSize: u32, into: usize): void {
  const scales = scalesOf(tile, headSize);
  const s0 = v128.load(scales);
  const s1 = v128.load(scales, 16);
  const s2 = v128.load(scales, 32);
  const s3 = v128.load(scales, 48);
  for (; tile < scales; tile += TILE, into += TILE * 4) widen(v128.load(tile), into, s0, s1, s2, s3);
}

/** The values of a tile, f32 `[TILE, headSize]`. */
export function widenValues(tile: usize, headSize: u32, into: usize): void {
  let scale = scalesOf(tile, headSize);
  const rest = headSize % TILE;
  for (let slot: u32 = 0; slot < TILE; slot++, scale += 4) {
    const s = v128.load32_splat(scale);
    const end = tile + headSize - rest;
    for (; tile < end; tile += TILE, into += TILE * 4) widen(v128.load(tile), into, s, s, s, s);
    for (let i: u32 = 0; i < rest; i++, tile++, into += 4) {
      store<f32>(into, <f32> load<i8>(tile) * load<f32>(scale));
    }
  }
}
