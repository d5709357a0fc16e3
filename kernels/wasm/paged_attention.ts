/**
 * Causal attention of grouped queries over the paged cache:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence up to `t` itself, within the window. Rows of one KV head see the same keys, and
 * are taken together; see `row_block.ts`.
 */
import { Item, itemAt, Site, Step, TILE, tileOffset, wordAt } from "./layout";
import { attendKeys, finish, findFirstKey, findLastKey, RowBlock, setRow, setTile } from "./row_block";
import { KEYS } from "./rows";

/**
 * Does the parts `[first, end)` of the work.
 *
 * @param scratch memory of this thread's own.
 */
export function pagedAttention(
  site: Site,
  step: Step,
  items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const block = changetype<RowBlock>(scratch);
  block.headBytes = site.headSize * 4;
  block.valueBytes = site.headSize * 4;
  block.tileStride = site.tokenBytes << site.blockShift;
  block.isQuantized = site.isQuantized;
  block.scale = site.scale;
  block.softcap = site.softcap;
  for (let work = first; work < end; work++) {
    attendItem(site, step, itemAt(items, work), block);
  }
}

function attendItem(site: Site, step: Step, item: Item, block: RowBlock): void {
  block.numHeads = item.numHeads;
  block.numRows = item.numRows;
  for (let i: u32 = 0; i < item.numHeads; i++) setRows(site, step, item, i, block);

  const table = step.blockTables + <usize> (item.sequence * step.maxBlocksPerSequence) * 4;
  const end = findLastKey(block);
  for (let base = findFirstKey(block); base < end; base += KEYS) {
    const until = min(base + KEYS, end);
    for (let key = base; key < until; key += TILE) {
      const offset = tileOffset(site, table, item.firstHead, key);
      setTile(block, (key - base) / TILE, site.kCache + offset, site.vCache + offset);
    }
    attendKeys(block, base);
  }
  finish(block);
}

/** Takes the rows of one head of an item. */
function setRows(site: Site, step: Step, item: Item, index: u32, block: RowBlock): void {
  const group = site.heads / site.kvHeads;
  const firstHead = (item.firstHead + index) * group;
  const firstToken = wordAt(step.queryStarts, item.sequence);
  for (let row: u32 = 0; row < item.numRows; row++) {
    const token = firstToken + (item.firstRow + row) / group;
    const head = firstHead + (item.firstRow + row) % group;
    const end = wordAt(step.positions, token) + 1;
    const start = site.window === 0 || end < site.window ? 0 : end - site.window;
    const query = site.q + <usize> (token * site.qStride + site.qOffset + head * site.headSize) * 4;
    const out = site.out + <usize> ((token * site.heads + head) * site.headSize) * 4;
    const sink = site.sinks ? site.sinks + <usize> head * 4 : 0;
    setRow(block, index, row, query, start, end, out, sink);
  }
}
