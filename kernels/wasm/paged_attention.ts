/**
 * Causal attention of grouped queries over the paged cache:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence up to `t` itself, within the window. Rows of one KV head see the same keys, and
 * are processed together; see `row_block.ts`.
 */
import { Item, itemAt, Node, Step, TILE, tileOffset, wordAt } from "./layout";
import { attendKeys, finish, findFirstKey, findLastKey, RowBlock, setRow, setTile } from "./row_block";
import { KEYS } from "./rows";

/**
 * Does the parts `[first, end)` of the work.
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
  block.scale = node.scale;
  block.softcap = node.softcap;
  for (let work = first; work < end; work++) {
    attendItem(node, step, itemAt(items, work), block);
  }
}

function attendItem(node: Node, step: Step, item: Item, block: RowBlock): void {
  block.numHeads = item.numHeads;
  block.numRows = item.numRows;
  for (let i: u32 = 0; i < item.numHeads; i++) setRows(node, step, item, i, block);

  const table = step.blockTables + <usize> (item.sequence * step.maxBlocksPerSequence) * 4;
  const end = findLastKey(block);
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
function setRows(node: Node, step: Step, item: Item, index: u32, block: RowBlock): void {
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
    setRow(block, index, row, query, start, end, out, sink);
  }
}
