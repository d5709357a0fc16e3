/**
 * Attention of every query of a sequence to every key of it, for sequences that lie one after the other:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence, those within reach of `t`.
 *
 * Keys of one sequence and head are first laid out in tiles, since each is read as often as there are rows; a row is a
 * pair (query, head of the group), and two at a time share each load of a key or value.
 */
import { TILE, wordAt } from "./layout";
import { PackedBatch, PackedSite } from "./packed_layout";
import { addOne, addTwo, fillHead, scaleHead, scoreOne, scoreTwo } from "./rows";
import { toWeights } from "./softmax";

export function packedAttention(site: PackedSite, batch: PackedBatch): void {
  const group = site.heads / site.kvHeads;
  for (let s: u32 = 0; s < batch.numSequences; s++) {
    const firstQuery = wordAt(batch.queryStarts, s);
    const numRows = (wordAt(batch.queryStarts, s + 1) - firstQuery) * group;
    const firstKey = wordAt(batch.keyStarts, s);
    const numKeys = wordAt(batch.keyLengths, s);
    if (numRows === 0) continue;
    for (let kvHead: u32 = 0; kvHead < site.kvHeads; kvHead++) {
      layTiles(site, batch, firstKey, numKeys, kvHead);
      const values = site.v +
        <usize> (firstKey * site.vStride + site.vOffset + kvHead * site.headSize) * 4;
      for (let row: u32 = 0; row < numRows; row += 2) {
        const second = min(row + 1, numRows - 1);
        attendRows(
          site,
          batch,
          values,
          numKeys,
          firstQuery + row / group,
          row / group,
          kvHead * group + row % group,
          firstQuery + second / group,
          second / group,
          kvHead * group + second % group,
        );
      }
    }
  }
}

/** Lays the keys of one head out sixteen side by side; what the last tile has too many stays as it was. */
function layTiles(
  site: PackedSite,
  batch: PackedBatch,
  firstKey: u32,
  numKeys: u32,
  kvHead: u32,
): void {
  const headBytes = site.headSize * 4;
  const stride = <usize> site.kStride * 4;
  let from = site.k + <usize> (firstKey * site.kStride + site.kOffset + kvHead * site.headSize) * 4;
  for (let key: u32 = 0; key < numKeys; key++, from += stride) {
    let into = batch.tiles + <usize> (key & -TILE) * headBytes + <usize> (key & (TILE - 1)) * 4;
    for (let at: usize = 0; at < headBytes; at += 16, into += TILE * 16) {
      const four = v128.load(from + at);
      v128.store_lane<f32>(into, four, 0);
      v128.store_lane<f32>(into, four, 1, TILE * 4);
      v128.store_lane<f32>(into, four, 2, TILE * 8);
      v128.store_lane<f32>(into, four, 3, TILE * 12);
    }
  }
}

/**
 * Row A and the next after it, B; or A alone, where they are the same.
 *
 * @param values of the sequence's first key.
 * @param tokenA row of A's query, `placeA` its place in its sequence.
 */
function attendRows(
  site: PackedSite,
  batch: PackedBatch,
  values: usize,
  numKeys: u32,
  tokenA: u32,
  placeA: u32,
  headA: u32,
  tokenB: u32,
  placeB: u32,
  headB: u32,
): void {
  const isPair = tokenA !== tokenB || headA !== headB;
  const headBytes = <usize> site.headSize * 4;
  const startA = firstKey(site, placeA);
  const startB = firstKey(site, placeB);
  const endA = keyEnd(site, placeA, numKeys);
  const endB = keyEnd(site, placeB, numKeys);
  // Row B begins and ends no earlier than row A.
  const origin = startA & -TILE;
  const count = (endB - origin + TILE - 1) & -TILE;

  const queryA = queryOf(site, tokenA, headA);
  const queryB = queryOf(site, tokenB, headB);
  const scoresA = batch.scores;
  const scoresB = scoresA + <usize> batch.scoresStride * 4;
  let keys = batch.tiles + <usize> origin * headBytes;
  for (let at: usize = 0; at < <usize> count * 4; at += TILE * 4, keys += TILE * headBytes) {
    if (isPair) scoreTwo(keys, queryA, queryB, headBytes, scoresA + at, scoresB + at);
    else scoreOne(keys, queryA, headBytes, scoresA + at);
  }

  const outA = outOf(site, tokenA, headA);
  const outB = outOf(site, tokenB, headB);
  const first = values + <usize> startA * site.vStride * 4;
  const weights = <usize> (startA - origin) * 4;
  const valueBytes = <usize> site.vStride * 4;
  const numValues = endB - startA;
  const totalA = weigh(site, scoresA, count, startA - origin, endA - origin);
  fillHead(outA, headBytes);
  if (!isPair) {
    addOne(first, valueBytes, numValues, headBytes, scoresA + weights, outA);
    scaleHead(outA, headBytes, 1 / totalA);
    return;
  }
  const totalB = weigh(site, scoresB, count, startB - origin, endB - origin);
  fillHead(outB, headBytes);
  addTwo(
    first,
    valueBytes,
    numValues,
    headBytes,
    scoresA + weights,
    scoresB + weights,
    outA,
    outB,
  );
  scaleHead(outA, headBytes, 1 / totalA);
  scaleHead(outB, headBytes, 1 / totalB);
}

function firstKey(site: PackedSite, place: u32): u32 {
  return site.reach === 0 || place < site.reach ? 0 : place - site.reach;
}

function keyEnd(site: PackedSite, place: u32, numKeys: u32): u32 {
  return site.reach === 0 ? numKeys : min(numKeys, place + site.reach + 1);
}

function queryOf(site: PackedSite, token: u32, head: u32): usize {
  return site.q + <usize> (token * site.qStride + site.qOffset + head * site.headSize) * 4;
}

function outOf(site: PackedSite, token: u32, head: u32): usize {
  return site.out + <usize> ((token * site.heads + head) * site.headSize) * 4;
}

function weigh(site: PackedSite, scores: usize, count: u32, start: u32, end: u32): f32 {
  return toWeights(scores, count, start, end, site.scale, site.softcap, 0);
}
