/**
 * Tiles of keys and values in 8 bits. Elements are multiples of 1/127 of the largest magnitude in their head and token;
 * they are followed by f32 `[TILE]`, 1/127 of each largest magnitude. Elements that one instruction multiplies and adds
 * lie side by side: for keys two elements, i8 `[headSize / 2, TILE, 2]`; for values two tokens, i8 `[TILE / 2,
 * headSize, 2]`.
 */
import { largestLane } from "./lanes";
import { TILE } from "./layout";

const LARGEST: f32 = 127;
const MOST_HALF: f32 = 65504;

/** Address of the scales of a tile. */
@inline
export function scalesAt(tile: usize, headSize: u32): usize {
  return tile + <usize> headSize * TILE;
}

/** Writes a key to slot `slot` of a tile. @param from f32 `[headSize]`. */
export function quantizeKey(from: usize, headSize: u32, tile: usize, slot: u32): void {
  const scale = scalesAt(tile, headSize) + (<usize> slot << 2);
  quantize(from, headSize, tile + (<usize> slot << 1), 1, TILE * 2, scale);
}

/** Writes a value to slot `slot` of a tile. @param from f32 `[headSize]`. */
export function quantizeValue(from: usize, headSize: u32, tile: usize, slot: u32): void {
  const scale = scalesAt(tile, headSize) + (<usize> slot << 2);
  const pair = tile + <usize> (slot >> 1) * headSize * 2;
  quantize(from, headSize, pair + (slot & 1), 2, 4, scale);
}

/**
 * @param within bytes from an element at an even index to the next one.
 * @param between bytes to the next element at an even index.
 */
function quantize(
  from: usize,
  headSize: u32,
  to: usize,
  within: usize,
  between: usize,
  scaleAt: usize,
): void {
  let most = f32x4.splat(0);
  const end = from + (<usize> headSize << 2);
  for (let at = from; at < end; at += 16) most = f32x4.max(most, f32x4.abs(v128.load(at)));
  const scale = roundToHalf(largestLane(most)) / LARGEST;
  store<f32>(scaleAt, scale);
  const inverse: f32 = scale > 0 ? 1 / scale : 0;
  for (let at = from; at < end; at += 8, to += between) {
    store<i8>(to, <i8> nearest(load<f32>(at) * inverse));
    store<i8>(to + within, <i8> nearest(load<f32>(at, 4) * inverse));
  }
}

/** Rounds a scale to the eleven significant bits of an f16, which is how GPUs store it. */
@inline
function roundToHalf(x: f32): f32 {
  const bits = reinterpret<u32>(min(x, MOST_HALF));
  return reinterpret<f32>((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
}

/** Expands the keys of a tile to f32 `[headSize, TILE]`. */
export function widenKeys(tile: usize, headSize: u32, into: usize): void {
  const scales = scalesAt(tile, headSize);
  for (; tile < scales; tile += TILE * 2, into += TILE * 8) {
    for (let half: usize = 0; half < 2; half++) {
      const pairs = v128.load(tile + half * 16);
      const s0 = v128.load(scales + half * 32);
      const s1 = v128.load(scales + half * 32, 16);
      widenEight(evens(pairs), s0, s1, into + half * 32);
      widenEight(odds(pairs), s0, s1, into + TILE * 4 + half * 32);
    }
  }
}

/** Expands the values of a tile to f32 `[TILE, headSize]`. */
export function widenValues(tile: usize, headSize: u32, into: usize): void {
  const headBytes = <usize> headSize << 2;
  for (let scale = scalesAt(tile, headSize), end = scale + TILE * 4; scale < end; scale += 8) {
    const s0 = v128.load32_splat(scale);
    const s1 = v128.load32_splat(scale, 4);
    // Four elements of two tokens at a time.
    for (const last = into + headBytes; into < last; into += 16, tile += 8) {
      const pairs = v128.load64_zero(tile);
      v128.store(into, widenFour(evens(pairs), s0));
      v128.store(into + headBytes, widenFour(odds(pairs), s1));
    }
    into += headBytes;
  }
}

/** Bytes at even indices as i16. */
@inline
function evens(bytes: v128): v128 {
  return i16x8.shr_s(i16x8.shl(bytes, 8), 8);
}

/** Bytes at odd indices as i16. */
@inline
function odds(bytes: v128): v128 {
  return i16x8.shr_s(bytes, 8);
}

@inline
function widenFour(words: v128, scale: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(words)), scale);
}

@inline
function widenEight(words: v128, s0: v128, s1: v128, into: usize): void {
  v128.store(into, widenFour(words, s0));
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(words)), s1), 16);
}
