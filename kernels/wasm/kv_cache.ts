/**
 * Rotates a step's queries and keys by position, writes its keys and values into the cache, and reads them back as
 * rows.
 *
 * Let `x` be a head at position `p`, and `x'[i]` the element that is rotated together with `x[i]`:
 *
 * `y[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, with minus for the first element of each pair.
 *
 * Queries and keys are rotated in place. Keys are then scattered into their tile, where they lie side by side, and
 * values are copied.
 *
 * In tiles of 8 bits, elements are multiples of 1/127 of the largest magnitude in their head and token. They are
 * followed by f32 `[TILE]`, 1/127 of each largest magnitude. Elements that one instruction multiplies and adds lie side
 * by side: for keys two elements, i8 `[headSize / 2, TILE, 2]`; for values two tokens, i8 `[TILE / 2, headSize, 2]`.
 */
import { Node, Step, TILE, tileOffset, wordAt } from "./layout";
import { rotateHalves, rotateNeighbours } from "./row_operations";
import { largestLane, transpose } from "./vectors";

export function kvWrite(node: Node, step: Step): void {
  for (let s: u32 = 0; s < step.numSequences; s++) {
    const table = step.blockTables + <usize> (s * step.maxBlocksPerSequence) * 4;
    const end = wordAt(step.queryStarts, s + 1);
    for (let token = wordAt(step.queryStarts, s); token < end; token++) {
      rotateToken(node, token, wordAt(step.anglePositions, token));
      writeToken(node, table, token, wordAt(step.positions, token));
    }
  }
}

function rotateToken(node: Node, token: u32, position: u32): void {
  if (node.rotarySize === 0) return;
  const headBytes = node.headSize * 4;
  let query = node.q + <usize> (token * node.qStride + node.qOffset) * 4;
  for (let head: u32 = 0; head < node.heads; head++, query += headBytes) {
    rotate(node, query, position);
  }
  let key = node.k + <usize> (token * node.kStride + node.kOffset) * 4;
  for (let head: u32 = 0; head < node.kvHeads; head++, key += headBytes) {
    rotate(node, key, position);
  }
}

function writeToken(node: Node, table: usize, token: u32, position: u32): void {
  const headBytes = node.headSize * 4;
  let key = node.k + <usize> (token * node.kStride + node.kOffset) * 4;
  let value = node.v + <usize> (token * node.vStride + node.vOffset) * 4;
  const slot = position % TILE;
  for (let head: u32 = 0; head < node.kvHeads; head++, key += headBytes, value += headBytes) {
    const tile = tileOffset(node, table, head, position);
    if (node.isQuantized) {
      quantizeKey(key, node.headSize, node.kCache + tile, slot);
      quantizeValue(value, node.headSize, node.vCache + tile, slot);
      continue;
    }
    scatter(key, headBytes, node.kCache + tile + slot * 4);
    copy(value, headBytes, node.vCache + tile + slot * headBytes);
  }
}

/** At these sizes, faster than `memory.copy`, which calls out of the module. */
function copy(from: usize, numBytes: usize, to: usize): void {
  for (const end = from + numBytes; from < end; from += 16, to += 16) {
    v128.store(to, v128.load(from));
  }
}

/** Writes the elements of a head at distances of `TILE` elements. */
export function scatter(from: usize, numBytes: usize, to: usize): void {
  const end = from + numBytes;
  for (; from < end; from += 16, to += TILE * 16) {
    const four = v128.load(from);
    v128.store_lane<f32>(to, four, 0);
    v128.store_lane<f32>(to, four, 1, TILE * 4);
    v128.store_lane<f32>(to, four, 2, TILE * 8);
    v128.store_lane<f32>(to, four, 3, TILE * 12);
  }
}

/** Rotates a head in place. */
function rotate(node: Node, head: usize, position: u32): void {
  const angles = <usize> (position * node.rotarySize) * 2;
  const cos = node.cos + angles;
  const sin = node.sin + angles;
  if (node.isInterleaved) rotateNeighbours(head, cos, sin, node.rotarySize);
  else rotateHalves(head, cos, sin, node.rotarySize);
}

/**
 * Reads whole tiles.
 *
 * @param table i32, the blocks of the sequence, beginning with the one that holds the first tile.
 * @param into f32 `[numTiles * TILE, headSize]`.
 * @param scratch f32 `[TILE, headSize]`.
 */
export function readKeys(
  node: Node,
  table: usize,
  head: u32,
  numTiles: u32,
  into: usize,
  scratch: usize,
): void {
  const rowBytes = <usize> node.headSize * 4;
  for (let i: u32 = 0; i < numTiles; i++, into += TILE * rowBytes) {
    let tile = node.kCache + tileOffset(node, table, head, i * TILE);
    if (node.isQuantized) {
      widenKeys(tile, node.headSize, scratch);
      tile = scratch;
    }
    // Four elements of four keys at a time.
    for (let element: usize = 0; element < rowBytes; element += 16) {
      const from = tile + element * TILE;
      for (let key: usize = 0; key < TILE; key += 4) {
        transpose(from + key * 4, TILE * 4, into + key * rowBytes + element, rowBytes);
      }
    }
  }
}

/** Like {@linkcode readKeys}, for values. */
export function readValues(
  node: Node,
  table: usize,
  head: u32,
  numTiles: u32,
  into: usize,
): void {
  const tileBytes = <usize> node.headSize * TILE * 4;
  for (let i: u32 = 0; i < numTiles; i++, into += tileBytes) {
    const tile = node.vCache + tileOffset(node, table, head, i * TILE);
    if (node.isQuantized) widenValues(tile, node.headSize, into);
    else memory.copy(into, tile, tileBytes);
  }
}

const LARGEST: f32 = 127;
const MOST_HALF: f32 = 65504;

/** Address of the scales of a tile. */
@inline
export function scalesAt(tile: usize, headSize: u32): usize {
  return tile + <usize> headSize * TILE;
}

/** Writes a key to slot `slot` of a tile. @param from f32 `[headSize]`. */
function quantizeKey(from: usize, headSize: u32, tile: usize, slot: u32): void {
  const scale = scalesAt(tile, headSize) + (<usize> slot << 2);
  quantize(from, headSize, tile + (<usize> slot << 1), 1, TILE * 2, scale);
}

/** Writes a value to slot `slot` of a tile. @param from f32 `[headSize]`. */
function quantizeValue(from: usize, headSize: u32, tile: usize, slot: u32): void {
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
function widenKeys(tile: usize, headSize: u32, into: usize): void {
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
function widenValues(tile: usize, headSize: u32, into: usize): void {
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
