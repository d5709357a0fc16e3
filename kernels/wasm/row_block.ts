/**
 * The rows that attention processes together, with their running softmax, as in FlashAttention. The rows belong to one
 * KV head, or to several neighbouring ones. `attend_keys.ts` multiplies them with keys and values.
 *
 * A row's result depends only on its query and its keys, bit for bit: neither on the other rows nor on the thread.
 */
import { TILE } from "./layout";
import { roundQuery } from "./rounded_rows";
import { fillHead, KEYS, scaleHead, SCORES_BYTES } from "./rows";
import { exp2, largestLane, LOG2_E, madd, sumLanes, tanh } from "./vectors";

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
  /** Whether a bias by distance is added to the scores. */
  hasSlopes: u32;
}

// Bytes from the block to its arrays.
/**
 * u32 `[ROWS]` each: row `i` sees the keys `[STARTS[i], ENDS[i])`. Within a head, neither decreases from row to row.
 */
const STARTS: usize = 64;
const ENDS: usize = STARTS + ROWS * 4;
/** Address of each row's result. */
const OUTS: usize = ENDS + ROWS * 4;
/** f32 `[ROWS]` each: the largest exponent (to base 2) so far, and the sum of weights. */
const LARGEST: usize = OUTS + ROWS * 4;
const TOTALS: usize = LARGEST + ROWS * 4;
/** f32 `[ROWS]`: by how much a row's scores grow from one key to the next. */
const SLOPES: usize = TOTALS + ROWS * 4;
/** u32 `[TILES]`: addresses of the keys and of the values of a tile. */
const KEY_TILES: usize = SLOPES + ROWS * 4;
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

export function queriesAt(block: RowBlock, row: u32): usize {
  return changetype<usize>(block) + QUERIES + <usize> row * block.headBytes;
}

export function sumAt(block: RowBlock, row: u32): usize {
  return queriesAt(block, ROWS + row);
}

export function scoresAt(block: RowBlock, row: u32): usize {
  return changetype<usize>(block) + SCORES + <usize> row * SCORES_BYTES;
}

export function rowStart(block: RowBlock, row: u32): u32 {
  return load<u32>(changetype<usize>(block) + (<usize> row << 2), STARTS);
}

export function rowEnd(block: RowBlock, row: u32): u32 {
  return load<u32>(changetype<usize>(block) + (<usize> row << 2), ENDS);
}

/**
 * Sets row `index` of a head.
 *
 * @param sink address of a logit whose weight is added to the row's sum; 0 for none.
 * @param slope by how much the row's scores grow from one key to the next.
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
  slope: f32,
): void {
  const row = head * block.numRows + index;
  const at = changetype<usize>(block) + (<usize> row << 2);
  store<u32>(at, start, STARTS);
  store<u32>(at, end, ENDS);
  store<u32>(at, <u32> out, OUTS);
  store<f32>(at, sink ? load<f32>(sink) * LOG2_E : -f32.MAX_VALUE, LARGEST);
  store<f32>(at, sink ? 1 : 0, TOTALS);
  store<f32>(at, slope, SLOPES);
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

/** The first key that any row sees, rounded down to a multiple of `KEYS`, since `KEYS` keys are processed together. */
export function findFirstKey(block: RowBlock): u32 {
  return rowStart(block, 0) & -KEYS;
}

/** The end (exclusive) of the keys that any row sees. */
export function findKeysEnd(block: RowBlock): u32 {
  return rowEnd(block, block.numHeads * block.numRows - 1);
}

/** Address of the keys of a tile. */
export function keyTileAt(block: RowBlock, tile: u32): usize {
  return load<u32>(changetype<usize>(block) + (<usize> tile << 2), KEY_TILES);
}

/** Address of the values of a tile. */
export function valueTileAt(block: RowBlock, tile: u32): usize {
  return load<u32>(changetype<usize>(block) + (<usize> tile << 2), VALUE_TILES);
}

/**
 * The first of the `KEYS` keys from `base` on that a row sees, relative to `base`; {@linkcode keysUntil} if there is
 * none.
 */
export function keysFrom(block: RowBlock, row: u32, base: u32): u32 {
  return min(max(rowStart(block, row), base) - base, keysUntil(block, row, base));
}

/** The end of the keys, among the `KEYS` from `base` on, that a row sees, relative to `base`. */
export function keysUntil(block: RowBlock, row: u32, base: u32): u32 {
  return min(max(rowEnd(block, row), base) - base, KEYS);
}

/** Turns a row's scores into weights relative to the largest so far, and rescales its earlier sums. */
export function weigh(block: RowBlock, row: u32, base: u32): void {
  const from = keysFrom(block, row, base);
  const until = keysUntil(block, row, base);
  if (from === until) return;
  const scores = scoresAt(block, row);
  const first = scores + <usize> (from & -4) * 4;
  const last = scores + <usize> ((until + 3) & -4) * 4;
  let scale = block.scale;
  if (block.softcap > 0) {
    capScores(first, last, scale, block.softcap);
    scale = 1;
  }
  const at = changetype<usize>(block) + (<usize> row << 2);
  if (block.hasSlopes) {
    const own = rowEnd(block, row) - 1;
    const distance = <f32> <i32> (base + (from & -4) - own);
    addBias(first, last, scale, load<f32>(at, SLOPES), distance);
    scale = 1;
  }
  hide(first, scores + <usize> from * 4);
  hide(scores + <usize> until * 4, last);
  scale *= LOG2_E;

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

/** The largest score. NaN is ignored here; it shows in the sum. */
function findMax(at: usize, end: usize): f32 {
  let most = f32x4.splat(-f32.MAX_VALUE);
  for (; at < end; at += 16) most = f32x4.pmax(most, v128.load(at));
  return largestLane(most);
}

/**
 * Turns scores into softmax weights before division by their sum: `2 ** (scale * score - largest)`.
 *
 * @returns the sum.
 */
function toWeights(at: usize, end: usize, scale: f32, largest: f32): f32 {
  const factor = f32x4.splat(scale);
  const shift = f32x4.splat(-largest);
  let sums = f32x4.splat(0);
  for (; at < end; at += 16) {
    const weights = exp2(madd(v128.load(at), factor, shift));
    v128.store(at, weights);
    sums = f32x4.add(sums, weights);
  }
  return sumLanes(sums);
}

/** `2 ** x` for `x ≤ 0`. */
function exp2One(x: f32): f32 {
  return f32x4.extract_lane(exp2(f32x4.splat(x)), 0);
}

/** Sets scores so that they get no weight. */
function hide(at: usize, end: usize): void {
  for (; at < end; at += 4) store<f32>(at, -Infinity);
}

/** `c * tanh(scale * score / c)`. */
function capScores(at: usize, end: usize, scale: f32, softcap: f32): void {
  const factor = f32x4.splat(scale / softcap);
  const most = f32x4.splat(softcap);
  for (; at < end; at += 16) {
    v128.store(at, f32x4.mul(most, tanh(f32x4.mul(v128.load(at), factor))));
  }
}

/**
 * `scale * score + slope * distance`.
 *
 * @param distance from the query to the first key; it grows by one from key to key.
 */
function addBias(at: usize, end: usize, scale: f32, slope: f32, distance: f32): void {
  const factor = f32x4.splat(scale);
  const slopes = f32x4.splat(slope);
  let distances = f32x4.add(f32x4.splat(distance), f32x4(0, 1, 2, 3));
  for (; at < end; at += 16) {
    v128.store(at, madd(slopes, distances, f32x4.mul(v128.load(at), factor)));
    distances = f32x4.add(distances, f32x4.splat(4));
  }
}

/** Writes the results. */
export function finish(block: RowBlock): void {
  for (let row: u32 = 0; row < block.numHeads * block.numRows; row++) {
    const at = changetype<usize>(block) + (<usize> row << 2);
    scaleHead(sumAt(block, row), block.headBytes, 1 / load<f32>(at, TOTALS), load<u32>(at, OUTS));
  }
}
