/**
 * Rotates a step's queries and keys by position, and writes its keys and values into the cache.
 *
 * Let `x` be a head at position `p`, and `x'[i]` the element that is rotated together with `x[i]`:
 *
 * `y[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, with minus for the first element of each pair.
 *
 * Queries and keys are rotated in place. Keys are then scattered into their tile, and values are copied.
 */
import { quantizeKey, quantizeValue } from "./cache_tile";
import { Node, Step, TILE, tileOffset, wordAt } from "./layout";

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

/** Writes the elements of a head `TILE` apart. */
function scatter(from: usize, numBytes: usize, to: usize): void {
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

export function rotateHalves(first: usize, cos: usize, sin: usize, size: u32): void {
  const half = <usize> size * 2;
  for (const end = first + half; first < end; first += 16, cos += 16, sin += 16) {
    const c = v128.load(cos);
    const s = v128.load(sin);
    const x = v128.load(first);
    const y = v128.load(first + half);
    v128.store(first, f32x4.sub(f32x4.mul(x, c), f32x4.mul(y, s)));
    v128.store(first + half, f32x4.add(f32x4.mul(y, c), f32x4.mul(x, s)));
  }
}

/** Two pairs at a time. */
export function rotateNeighbours(pairs: usize, cos: usize, sin: usize, size: u32): void {
  const signs = f32x4(-1, 1, -1, 1);
  for (const end = pairs + <usize> size * 4; pairs < end; pairs += 16, cos += 8, sin += 8) {
    const c = twice(v128.load64_zero(cos));
    const s = f32x4.mul(twice(v128.load64_zero(sin)), signs);
    const xy = v128.load(pairs);
    const yx = v128.shuffle<f32>(xy, xy, 1, 0, 3, 2);
    v128.store(pairs, f32x4.add(f32x4.mul(xy, c), f32x4.mul(yx, s)));
  }
}

/** `a, a, b, b` from `a, b, …`. */
function twice(two: v128): v128 {
  return v128.shuffle<f32>(two, two, 0, 0, 1, 1);
}
