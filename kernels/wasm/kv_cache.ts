/**
 * Rotates a step's queries and keys by position, writes its keys and values into the cache, and reads them back as rows.
 *
 * Let `x` be a head at position `p`, and `x'[i]` the element that is rotated together with `x[i]`:
 *
 * `y[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, with minus for the first element of each pair.
 *
 * Queries and keys are rotated in place. Keys are then scattered into their tile, where they lie side by side, and values
 * are copied.
 */
import { quantizeKey, quantizeValue, widenKeys, widenValues } from "./cache_tile";
import { transpose } from "./lanes";
import { Node, Step, TILE, tileOffset, wordAt } from "./layout";
import { rotateHalves, rotateNeighbours } from "./row_operations";

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
