/**
 * Attention for up to `ROWS` rows that see about the same keys. The rows belong to one KV head, or to several
 * neighbouring ones. As in FlashAttention, `KEYS` keys are processed at a time, with a running softmax. The working set
 * stays in the L1 cache, and keys and values are read once for all rows.
 *
 * A row's result depends only on its query and its keys, bit for bit: neither on the other rows nor on the thread.
 */
import { scalesAt } from "./cache_tile";
import { TILE } from "./layout";
import {
  addOne,
  addSix,
  addTwo,
  fillHead,
  KEYS,
  scaleHead,
  scoreOne,
  scoreSix,
  scoreTwo,
  SCORES_BYTES,
} from "./rows";
import {
  addFourRounded,
  addOneRounded,
  addTwoRounded,
  roundQuery,
  roundWeights,
  scoreFourRounded,
  scoreOneRounded,
  scoreTwoRounded,
} from "./rounded_rows";
import { cap, hide, LOG2_E, findMax, toWeights, exp2One } from "./softmax";

export const ROWS: u32 = 24;
const TILES: u32 = KEYS / TILE;

/** The rows of one pass. The structure lies in a thread's scratch memory, followed by its arrays. */
@unmanaged
export class RowBlock {
  numHeads: u32;
  /** Number of rows of each head; the rows of a head are consecutive. */
  numRows: u32;
  /** Distance from a tile of one head to that of the next head. */
  tileStride: u32;
  headBytes: u32;
  /** Distance from one value to the next. */
  valueBytes: u32;
  scale: f32;
  softcap: f32;
  /** Whether tiles are in 8 bits. Queries and weights are then rounded too; see `rounded_rows.ts`. */
  isQuantized: u32;
}

// Bytes from the block to its arrays.
/** u32 `[ROWS]` each: row `i` sees the keys `[STARTS[i], ENDS[i])`. Within a head, both grow or stay from row to row. */
const STARTS: usize = 64;
const ENDS: usize = STARTS + ROWS * 4;
/** Address of each row's result. */
const OUTS: usize = ENDS + ROWS * 4;
/** f32 `[ROWS]`: the largest exponent of two so far, and the sum of weights. */
const LARGEST: usize = OUTS + ROWS * 4;
const TOTALS: usize = LARGEST + ROWS * 4;
/** u32 `[TILES]`: addresses of the keys and of the values of a tile. */
const KEY_TILES: usize = TOTALS + ROWS * 4;
const VALUE_TILES: usize = KEY_TILES + TILES * 4;
/** f32 `[ROWS, KEYS]`. */
const SCORES: usize = VALUE_TILES + TILES * 4;
/**
 * f32 `[ROWS, headSize]`: the queries, either rounded or interleaved in groups of six, two or one. The sums follow, in
 * the same shape.
 */
const QUERIES: usize = SCORES + ROWS * SCORES_BYTES;

/** Bytes that a block and its arrays take. */
export function blockBytes(headSize: u32): usize {
  return QUERIES + <usize> headSize * ROWS * 8;
}

/** Number of rows that are processed together over tiles in 8 bits, given the number left. */
function togetherRounded(left: u32): u32 {
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/** Number of rows that are processed together, given the number left. */
function together(left: u32): u32 {
  return left >= 6 ? 6 : left >= 2 ? 2 : 1;
}

function queriesAt(block: RowBlock, row: u32): usize {
  return changetype<usize>(block) + QUERIES + <usize> row * block.headBytes;
}

function sumAt(block: RowBlock, row: u32): usize {
  return queriesAt(block, ROWS + row);
}

function scoresAt(block: RowBlock, row: u32): usize {
  return changetype<usize>(block) + SCORES + <usize> row * SCORES_BYTES;
}

function rowStart(block: RowBlock, row: u32): u32 {
  return load<u32>(changetype<usize>(block) + (<usize> row << 2), STARTS);
}

function rowEnd(block: RowBlock, row: u32): u32 {
  return load<u32>(changetype<usize>(block) + (<usize> row << 2), ENDS);
}

/**
 * Sets row `index` of a head.
 *
 * @param sink address of a logit that is added to its sum; 0 for none.
 */
export function setRow(
  block: RowBlock,
  head: u32,
  index: u32,
  query: usize,
  start: u32,
  end: u32,
  out: usize,
  sink: usize,
): void {
  const row = head * block.numRows + index;
  const at = changetype<usize>(block) + (<usize> row << 2);
  store<u32>(at, start, STARTS);
  store<u32>(at, end, ENDS);
  store<u32>(at, <u32> out, OUTS);
  store<f32>(at, sink ? load<f32>(sink) * LOG2_E : -f32.MAX_VALUE, LARGEST);
  store<f32>(at, sink ? 1 : 0, TOTALS);
  fillHead(sumAt(block, row), block.headBytes);
  if (block.isQuantized) {
    roundQuery(query, block.headBytes / 4, queriesAt(block, row));
    return;
  }
  // The row's group, which is interleaved, has `count` rows; the row is number `among` of them.
  const sixth = index % 6;
  const left = block.numRows - (index - sixth);
  const count: u32 = left >= 6 ? 6 : sixth === left - 1 && left % 2 === 1 ? 1 : 2;
  const among = sixth % count;
  let to = queriesAt(block, row - among) + <usize> among * 4;
  for (const last = query + block.headBytes; query < last; query += 4, to += count * 4) {
    store<f32>(to, load<f32>(query));
  }
}

/** Sets the addresses of a tile of the next keys. */
export function setTile(block: RowBlock, tile: u32, keys: usize, values: usize): void {
  const at = changetype<usize>(block) + (<usize> tile << 2);
  store<u32>(at, <u32> keys, KEY_TILES);
  store<u32>(at, <u32> values, VALUE_TILES);
}

/** The first key that any row sees, rounded down to the keys processed together. */
export function findFirstKey(block: RowBlock): u32 {
  return rowStart(block, 0) & -KEYS;
}

export function findLastKey(block: RowBlock): u32 {
  return rowEnd(block, block.numHeads * block.numRows - 1);
}

/** Processes the keys `[base, base + KEYS)`, whose tiles must be set as far as rows see them. */
export function attendKeys(block: RowBlock, base: u32): void {
  const from = max(rowStart(block, 0), base) - base;
  const until = min(findLastKey(block) - base, KEYS);
  const firstTile = from / TILE;
  const endTile = (until + TILE - 1) / TILE;
  score(block, base, firstTile, endTile);
  for (let row: u32 = 0; row < block.numHeads * block.numRows; row++) weigh(block, row, base);
  sum(block, base, firstTile, endTile);
}

function score(block: RowBlock, base: u32, firstTile: u32, endTile: u32): void {
  for (let tile = firstTile; tile < endTile; tile++) {
    let keys: usize = load<u32>(changetype<usize>(block) + (<usize> tile << 2), KEY_TILES);
    for (let head: u32 = 0; head < block.numHeads; head++, keys += block.tileStride) {
      const row = head * block.numRows;
      if (block.isQuantized) scoreRounded(block, row, base, tile, keys);
      else scoreTile(block, row, base, tile, keys);
    }
  }
}

/** Multiplies the rows of a head, from `row` on, with the keys of a tile. */
function scoreTile(block: RowBlock, row: u32, base: u32, tile: u32, keys: usize): void {
  const first = base + tile * TILE;
  const headBytes = block.headBytes;
  for (const end = row + block.numRows; row < end;) {
    const count = together(end - row);
    // Skips the tile unless one of these rows sees it.
    if (rowEnd(block, row + count - 1) > first && rowStart(block, row) < first + TILE) {
      const queries = queriesAt(block, row);
      const into = scoresAt(block, row) + <usize> tile * TILE * 4;
      if (count === 6) scoreSix(keys, queries, headBytes, into);
      else if (count === 2) scoreTwo(keys, queries, headBytes, into);
      else scoreOne(keys, queries, headBytes, into);
    }
    row += count;
  }
}

/** Like `scoreTile`, for a tile in 8 bits. */
function scoreRounded(block: RowBlock, row: u32, base: u32, tile: u32, keys: usize): void {
  const first = base + tile * TILE;
  const headSize = block.headBytes / 4;
  const stride = block.headBytes;
  for (const end = row + block.numRows; row < end;) {
    const count = togetherRounded(end - row);
    if (rowEnd(block, row + count - 1) > first && rowStart(block, row) < first + TILE) {
      const queries = queriesAt(block, row);
      const into = scoresAt(block, row) + <usize> tile * TILE * 4;
      if (count === 4) scoreFourRounded(keys, headSize, queries, stride, into);
      else if (count === 2) scoreTwoRounded(keys, headSize, queries, stride, into);
      else scoreOneRounded(keys, headSize, queries, into);
    }
    row += count;
  }
}

/** First of the keys from `base` on that a row sees, and their end; both are equal if it sees none. */
function keysFrom(block: RowBlock, row: u32, base: u32): u32 {
  return min(max(rowStart(block, row), base) - base, keysUntil(block, row, base));
}

function keysUntil(block: RowBlock, row: u32, base: u32): u32 {
  return min(max(rowEnd(block, row), base) - base, KEYS);
}

/** Turns a row's scores into weights relative to the largest so far, and rescales its earlier sums. */
function weigh(block: RowBlock, row: u32, base: u32): void {
  const from = keysFrom(block, row, base);
  const until = keysUntil(block, row, base);
  if (from === until) return;
  const scores = scoresAt(block, row);
  const first = scores + <usize> (from & -4) * 4;
  const last = scores + <usize> ((until + 3) & -4) * 4;
  let scale = block.scale;
  if (block.softcap > 0) {
    cap(first, last, scale, block.softcap);
    scale = 1;
  }
  hide(first, scores + <usize> from * 4);
  hide(scores + <usize> until * 4, last);
  scale *= LOG2_E;

  const at = changetype<usize>(block) + (<usize> row << 2);
  const before = load<f32>(at, LARGEST);
  const largest = max(before, scale * findMax(first, last));
  let total = load<f32>(at, TOTALS);
  if (largest > before) {
    const factor = exp2One(before - largest);
    total *= factor;
    scaleHead(sumAt(block, row), block.headBytes, factor, sumAt(block, row));
  }
  store<f32>(at, largest, LARGEST);
  store<f32>(at, total + toWeights(first, last, scale, largest), TOTALS);
}

/**
 * Adds the weighted values. Rows are processed together for the keys that all of them see. Values that only some rows
 * see are added row by row, since a weight of 0 does not cancel a NaN.
 */
function sum(block: RowBlock, base: u32, firstTile: u32, endTile: u32): void {
  for (let tile = firstTile; tile < endTile; tile++) {
    let values: usize = load<u32>(changetype<usize>(block) + (<usize> tile << 2), VALUE_TILES);
    for (let head: u32 = 0; head < block.numHeads; head++, values += block.tileStride) {
      const row = head * block.numRows;
      if (block.isQuantized) sumRounded(block, row, base, tile, values);
      else sumTile(block, row, base, tile, values);
    }
  }
}

function sumTile(block: RowBlock, row: u32, base: u32, tile: u32, values: usize): void {
  for (const end = row + block.numRows; row < end;) {
    const count = together(end - row);
    const from = keysFrom(block, row + count - 1, base);
    const until = keysUntil(block, row, base);
    if (from <= tile * TILE && until >= tile * TILE + TILE) {
      addValues(block, row, count, tile * TILE, TILE, values);
    } else if (from < until) {
      addRows(block, row, count, tile, values, base, from);
      addPart(block, row, count, tile, values, from, until);
      addRows(block, row, count, tile, values, base, KEYS, until);
    } else {
      addRows(block, row, count, tile, values, base, KEYS);
    }
    row += count;
  }
}

/** Like `sumTile`, for a tile in 8 bits, which holds no NaN. */
function sumRounded(block: RowBlock, row: u32, base: u32, tile: u32, values: usize): void {
  const headSize = block.headBytes / 4;
  const scales = scalesAt(values, headSize);
  const first = <i32> (tile * TILE);
  for (const end = row + block.numRows; row < end;) {
    const count = togetherRounded(end - row);
    const weights = scoresAt(block, row) + <usize> tile * TILE * 4;
    for (let i: u32 = 0; i < count; i++) {
      const from = <i32> keysFrom(block, row + i, base) - first;
      const until = <i32> keysUntil(block, row + i, base) - first;
      roundWeights(weights + <usize> i * SCORES_BYTES, scales, from, until);
    }
    const sums = sumAt(block, row);
    if (count === 4) addFourRounded(values, headSize, weights, sums);
    else if (count === 2) addTwoRounded(values, headSize, weights, sums);
    else addOneRounded(values, headSize, weights, sums);
    row += count;
  }
}

/** Adds the values `[from, until)` of a tile row by row, as far as each row sees them. */
function addRows(
  block: RowBlock,
  row: u32,
  count: u32,
  tile: u32,
  values: usize,
  base: u32,
  until: u32,
  from: u32 = 0,
): void {
  for (const end = row + count; row < end; row++) {
    const first = max(from, keysFrom(block, row, base));
    addPart(block, row, 1, tile, values, first, min(until, keysUntil(block, row, base)));
  }
}

/** Adds the values `[from, until)`, as far as they lie in a tile, to the sums of `count` rows. */
function addPart(
  block: RowBlock,
  row: u32,
  count: u32,
  tile: u32,
  values: usize,
  from: u32,
  until: u32,
): void {
  const first = max(from, tile * TILE);
  const end = min(until, tile * TILE + TILE);
  if (first >= end) return;
  const at = values + <usize> (first - tile * TILE) * block.valueBytes;
  addValues(block, row, count, first, end - first, at);
}

function addValues(
  block: RowBlock,
  row: u32,
  count: u32,
  first: u32,
  numKeys: u32,
  values: usize,
): void {
  const headBytes = block.headBytes;
  const valueBytes = block.valueBytes;
  const weights = scoresAt(block, row) + <usize> first * 4;
  const sums = sumAt(block, row);
  if (count === 6) addSix(values, valueBytes, numKeys, headBytes, weights, sums);
  else if (count === 2) addTwo(values, valueBytes, numKeys, headBytes, weights, sums);
  else addOne(values, valueBytes, numKeys, headBytes, weights, sums);
}

/** Writes the results. */
export function finish(block: RowBlock): void {
  for (let row: u32 = 0; row < block.numHeads * block.numRows; row++) {
    const at = changetype<usize>(block) + (<usize> row << 2);
    scaleHead(sumAt(block, row), block.headBytes, 1 / load<f32>(at, TOTALS), load<u32>(at, OUTS));
  }
}
