/** Copies keys and values of a head from the cache, where they lie side by side in tiles, to rows. */
import { widenKeys, widenValues } from "./cache_tile";
import { transpose } from "./lanes";
import { Node, TILE, tileOffset } from "./layout";

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

/** As {@linkcode readKeys}, for values. */
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
