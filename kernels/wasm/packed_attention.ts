/**
 * Bidirectional attention within sequences that lie one after the other:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence that lie in the window of `t`.
 *
 * The keys of one sequence and head are first copied into tiles, since each is read once per block of rows. Then rows
 * are processed together; see `row_block.ts`.
 */
import { scatter } from "./kv_cache";
import { Item, itemAt, PackedBatch, PackedNode, TILE, wordAt } from "./layout";
import {
  attendKeys,
  blockBytes,
  finish,
  findFirstKey,
  findLastKey,
  RowBlock,
  ROWS,
  setRow,
  setTile,
} from "./row_block";
import { KEYS } from "./rows";

/**
 * As `pagedAttention`, for items of one head. After the block of rows, scratch memory has space for the tiles of one
 * sequence and head.
 */
export function packedAttention(
  node: PackedNode,
  batch: PackedBatch,
  items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const block = changetype<RowBlock>(scratch);
  block.headBytes = node.headSize * 4;
  block.valueBytes = node.vStride * 4;
  block.scale = node.scale;
  block.softcap = node.softcap;
  block.isQuantized = 0;
  block.numHeads = 1;
  for (let work = first; work < end; work++) {
    const item = itemAt(items, work);
    attendItem(node, batch, item, item.firstHead, block);
  }
}

function attendItem(
  node: PackedNode,
  batch: PackedBatch,
  item: Item,
  kvHead: u32,
  block: RowBlock,
): void {
  const numKeys = wordAt(batch.keyLengths, item.sequence);
  const firstKey = wordAt(batch.keyStarts, item.sequence);
  const tiles = changetype<usize>(block) + blockBytes(node.headSize);
  layTiles(node, firstKey, numKeys, kvHead, tiles);
  const values = node.v +
    <usize> (firstKey * node.vStride + node.vOffset + kvHead * node.headSize) * 4;
  for (let done: u32 = 0; done < item.numRows; done += ROWS) {
    block.numRows = min(ROWS, item.numRows - done);
    setRows(node, batch, item, done, numKeys, kvHead, block);
    const end = findLastKey(block);
    for (let base = findFirstKey(block); base < end; base += KEYS) {
      const until = min(base + KEYS, end);
      for (let key = base; key < until; key += TILE) {
        const tile = tiles + <usize> key * block.headBytes;
        setTile(block, (key - base) / TILE, tile, values + <usize> key * block.valueBytes);
      }
      attendKeys(block, base);
    }
    finish(block);
  }
}

/** Sets the rows of an item from `done` on. */
function setRows(
  node: PackedNode,
  batch: PackedBatch,
  item: Item,
  done: u32,
  numKeys: u32,
  kvHead: u32,
  block: RowBlock,
): void {
  const group = node.heads / node.kvHeads;
  const firstQuery = wordAt(batch.queryStarts, item.sequence);
  for (let row: u32 = 0; row < block.numRows; row++) {
    const position = (item.firstRow + done + row) / group;
    const head = kvHead * group + (item.firstRow + done + row) % group;
    const token = firstQuery + position;
    const query = node.q + <usize> (token * node.qStride + node.qOffset + head * node.headSize) * 4;
    const out = node.out + <usize> ((token * node.heads + head) * node.headSize) * 4;
    const start = node.window === 0 || position < node.window ? 0 : position - node.window;
    const end = node.window === 0 ? numKeys : min(numKeys, position + node.window + 1);
    setRow(block, 0, row, query, start, end, out, 0);
  }
}

/** Copies the keys of one head into tiles of sixteen; unused entries of the last tile keep their old values. */
function layTiles(node: PackedNode, firstKey: u32, numKeys: u32, kvHead: u32, tiles: usize): void {
  const headBytes = node.headSize * 4;
  const stride = <usize> node.kStride * 4;
  let from = node.k + <usize> (firstKey * node.kStride + node.kOffset + kvHead * node.headSize) * 4;
  for (let key: u32 = 0; key < numKeys; key++, from += stride) {
    scatter(from, headBytes, tiles + <usize> (key & -TILE) * headBytes + <usize> (key & (TILE - 1)) * 4);
  }
}
