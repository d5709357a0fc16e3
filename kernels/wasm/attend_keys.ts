/**
 * Attention of up to `ROWS` rows to the next `KEYS` keys: scores, weights and weighted sums. The working set stays in
 * the L1 cache, and keys and values are read once for all rows.
 */
import { scalesAt } from "./kv_cache";
import { TILE } from "./layout";
import {
  addFourRounded,
  addOneRounded,
  addTwoRounded,
  roundWeights,
  scoreFourRounded,
  scoreOneRounded,
  scoreTwoRounded,
} from "./rounded_rows";
import {
  findKeysEnd,
  keysFrom,
  keysUntil,
  keyTileAt,
  queriesAt,
  RowBlock,
  rowEnd,
  rowStart,
  scoresAt,
  sumAt,
  valueTileAt,
  weigh,
} from "./row_block";
import { addOne, addSix, addTwo, KEYS, scoreOne, SCORES_BYTES, scoreSix, scoreTwo } from "./rows";

/** Processes the keys `[base, base + KEYS)`, whose tiles must be set as far as rows see them. */
export function attendKeys(block: RowBlock, base: u32): void {
  const from = max(rowStart(block, 0), base) - base;
  const until = min(findKeysEnd(block) - base, KEYS);
  const firstTile = from / TILE;
  const endTile = (until + TILE - 1) / TILE;
  score(block, base, firstTile, endTile);
  for (let row: u32 = 0; row < block.numHeads * block.numRows; row++) weigh(block, row, base);
  sum(block, base, firstTile, endTile);
}

function score(block: RowBlock, base: u32, firstTile: u32, endTile: u32): void {
  for (let tile = firstTile; tile < endTile; tile++) {
    let keys = keyTileAt(block, tile);
    for (let head: u32 = 0; head < block.numHeads; head++, keys += block.tileStride) {
      const row = head * block.numRows;
      if (block.isQuantized) scoreRounded(block, row, base, tile, keys);
      else scoreTile(block, row, base, tile, keys);
    }
  }
}

/** Multiplies the rows of a head, beginning at `row`, with the keys of a tile. */
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

/** Number of rows that are processed together over tiles in 8 bits, given the number left. */
function togetherRounded(left: u32): u32 {
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/** Number of rows that are processed together, given the number left. */
function together(left: u32): u32 {
  return left >= 6 ? 6 : left >= 2 ? 2 : 1;
}

/**
 * Adds the weighted values. Rows are processed together for the keys that all of them see. Values that only some rows
 * see are added row by row, since a weight of 0 does not cancel a NaN.
 */
function sum(block: RowBlock, base: u32, firstTile: u32, endTile: u32): void {
  for (let tile = firstTile; tile < endTile; tile++) {
    let values = valueTileAt(block, tile);
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
