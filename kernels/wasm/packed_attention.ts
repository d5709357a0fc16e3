/**
 * Attention of every query of a sequence to every key of it, for sequences that lie one after the other:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence, those in the window of `t`.
 *
 * Keys of one sequence and head are first laid out in tiles, since each is read as often as there are rows; then rows
 * are taken together, see `row_block.ts`.
 */
import { Item, itemAt, TILE, wordAt } from "./layout";
import { PackedBatch, PackedSite } from "./packed_layout";
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
 * Like `pagedAttention`, for items of one head; behind the block of rows, scratch memory has room for the tiles of one
 * sequence and head.
 */
export function packedAttention(
  site: PackedSite,
  batch: PackedBatch,
  items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const block = changetype<RowBlock>(scratch);
  block.headBytes = site.headSize * 4;
  block.valueBytes = site.vStride * 4;
  block.scale = site.scale;
  block.softcap = site.softcap;
  block.isQuantized = 0;
  block.numHeads = 1;
  for (let work = first; work < end; work++) {
    const item = itemAt(items, work);
    attendItem(site, batch, item, item.firstHead, block);
  }
}

function attendItem(
  site: PackedSite,
  batch: PackedBatch,
  item: Item,
  kvHead: u32,
  block: RowBlock,
): void {
  const numKeys = wordAt(batch.keyLengths, item.sequence);
  const firstKey = wordAt(batch.keyStarts, item.sequence);
  const tiles = changetype<usize>(block) + blockBytes(site.headSize);
  layTiles(site, firstKey, numKeys, kvHead, tiles);
  const values = site.v +
    <usize> (firstKey * site.vStride + site.vOffset + kvHead * site.headSize) * 4;
  for (let done: u32 = 0; done < item.numRows; done += ROWS) {
    block.numRows = min(ROWS, item.numRows - done);
    setRows(site, batch, item, done, numKeys, kvHead, block);
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

/** Takes the rows of an item from `done` on. */
function setRows(
  site: PackedSite,
  batch: PackedBatch,
  item: Item,
  done: u32,
  numKeys: u32,
  kvHead: u32,
  block: RowBlock,
): void {
  const group = site.heads / site.kvHeads;
  const firstQuery = wordAt(batch.queryStarts, item.sequence);
  for (let row: u32 = 0; row < block.numRows; row++) {
    const position = (item.firstRow + done + row) / group;
    const head = kvHead * group + (item.firstRow + done + row) % group;
    const token = firstQuery + position;
    const query = site.q + <usize> (token * site.qStride + site.qOffset + head * site.headSize) * 4;
    const out = site.out + <usize> ((token * site.heads + head) * site.headSize) * 4;
    const start = site.window === 0 || position < site.window ? 0 : position - site.window;
    const end = site.window === 0 ? numKeys : min(numKeys, position + site.window + 1);
    setRow(block, 0, row, query, start, end, out, 0);
  }
}

/** Copies the keys of one head into tiles of sixteen; unused entries of the last tile keep their old values. */
function layTiles(site: PackedSite, firstKey: u32, numKeys: u32, kvHead: u32, tiles: usize): void {
  const headBytes = site.headSize * 4;
  const stride = <usize> site.kStride * 4;
  let from = site.k + <usize> (firstKey * site.kStride + site.kOffset + kvHead * site.headSize) * 4;
  for (let key: u32 = 0; key < numKeys; key++, from += stride) {
    let into = tiles + <usize> (key & -TILE) * headBytes + <usize> (key & (TILE - 1)) * 4;
    for (let at: usize = 0; at < headBytes; at += 16, into += TILE * 16) {
      const four = v128.load(from + at);
      v128.store_lane<f32>(into, four, 0);
      v128.store_lane<f32>(into, four, 1, TILE * 4);
      v128.store_lane<f32>(into, four, 2, TILE * 8);
      v128.store_lane<f32>(into, four, 3, TILE * 12);
    }
  }
}
