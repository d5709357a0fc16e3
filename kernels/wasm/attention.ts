/**
 * Attention of grouped queries:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group]) + slope[h] * (j - t)) * v[j, h / group]`
 *
 * `pagedAttention` is causal, over the paged cache: the keys `j` are those of `t`'s sequence up to `t` itself, within
 * the window. `packedAttention` is bidirectional, for sequences that lie one after the other: the keys `j` are those of
 * `t`'s sequence within the window on either side of `t`. Keys are first copied into tiles, since every block of rows
 * reads all of them; values are read where they are.
 *
 * Rows of one KV head see about the same keys, and are processed together; see `attend_keys.ts`.
 */
import { attendKeys } from "./attend_keys";
import { scatter } from "./kv_cache";
import {
  Item,
  itemAt,
  Node,
  PackedBatch,
  PackedNode,
  Step,
  TILE,
  tileOffset,
  wordAt,
} from "./layout";
import {
  blockBytes,
  findFirstKey,
  findKeysEnd,
  finish,
  RowBlock,
  ROWS,
  setRow,
  setTile,
} from "./row_block";
import { KEYS } from "./rows";

/**
 * Computes the parts `[first, end)` of the work.
 *
 * @param scratch memory that belongs to this thread.
 */
export function pagedAttention(
  node: Node,
  step: Step,
  items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const block = changetype<RowBlock>(scratch);
  block.headBytes = node.headSize * 4;
  block.valueBytes = node.headSize * 4;
  block.tileStride = node.tokenBytes << node.blockShift;
  block.isQuantized = node.isQuantized;
  block.hasSlopes = node.slopes ? 1 : 0;
  block.scale = node.scale;
  block.softcap = node.softcap;
  for (let work = first; work < end; work++) {
    attendPagedItem(node, step, itemAt(items, work), block);
  }
}

function attendPagedItem(node: Node, step: Step, item: Item, block: RowBlock): void {
  block.numHeads = item.numHeads;
  block.numRows = item.numRows;
  for (let i: u32 = 0; i < item.numHeads; i++) setPagedRows(node, step, item, i, block);

  const table = step.blockTables + <usize> (item.sequence * step.maxBlocksPerSequence) * 4;
  const end = findKeysEnd(block);
  for (let base = findFirstKey(block); base < end; base += KEYS) {
    const until = min(base + KEYS, end);
    for (let key = base; key < until; key += TILE) {
      const offset = tileOffset(node, table, item.firstHead, key);
      setTile(block, (key - base) / TILE, node.kCache + offset, node.vCache + offset);
    }
    attendKeys(block, base);
  }
  finish(block);
}

/** Sets the rows of one head of an item. */
function setPagedRows(node: Node, step: Step, item: Item, index: u32, block: RowBlock): void {
  const group = node.heads / node.kvHeads;
  const firstHead = (item.firstHead + index) * group;
  const firstToken = wordAt(step.queryStarts, item.sequence);
  for (let row: u32 = 0; row < item.numRows; row++) {
    const token = firstToken + (item.firstRow + row) / group;
    const head = firstHead + (item.firstRow + row) % group;
    const end = wordAt(step.positions, token) + 1;
    const start = node.window === 0 || end < node.window ? 0 : end - node.window;
    const query = node.q + <usize> (token * node.qStride + node.qOffset + head * node.headSize) * 4;
    const out = node.out + <usize> ((token * node.heads + head) * node.headSize) * 4;
    const sink = node.sinks ? node.sinks + <usize> head * 4 : 0;
    const slope = node.slopes ? load<f32>(node.slopes + <usize> head * 4) : 0;
    setRow(block, index, row, query, start, end, out, sink, slope);
  }
}

/**
 * Does for packed sequences what `pagedAttention` does for paged ones; each item has one head. After the block of rows,
 * scratch memory has space for the tiles of one sequence and head.
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
  block.hasSlopes = 0;
  block.numHeads = 1;
  for (let work = first; work < end; work++) {
    const item = itemAt(items, work);
    attendPackedItem(node, batch, item, item.firstHead, block);
  }
}

function attendPackedItem(
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
    setPackedRows(node, batch, item, done, numKeys, kvHead, block);
    const end = findKeysEnd(block);
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

/** Sets the rows of an item, beginning at `done`. */
function setPackedRows(
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
    setRow(block, 0, row, query, start, end, out, 0, 0);
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
