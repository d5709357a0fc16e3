/**
 * Inner loops of attention over keys and values in 8 bits, for four, two or one rows that share each load: products of
 * integers, summed exactly. See `kv_cache.ts` for the tiles.
 *
 * Queries, and the weights of a tile's values, are rounded to multiples of 1/32767 of the largest magnitude. Compared
 * with the 8 bits of the cache, that error is negligible.
 */
import { TILE } from "./layout";
import { SCORES_BYTES } from "./rows";
import { largestLane, madd } from "./vectors";

const LARGEST: f32 = 32767;
/** Bytes from the weights of a row's tile, i16 `[TILE]`, to the value that 1 stands for in them. */
const UNIT: usize = <usize> TILE * 2;

/**
 * Rounds a query.
 *
 * @param from f32 `[headSize]`.
 * @param into i16 `[headSize]`, then f32, the value that 1 stands for.
 */
export function roundQuery(from: usize, headSize: u32, into: usize): void {
  let most = f32x4.splat(0);
  const end = from + (<usize> headSize << 2);
  for (let at = from; at < end; at += 16) most = f32x4.max(most, f32x4.abs(v128.load(at)));
  const largest = largestLane(most);
  const inverse = f32x4.splat(largest > 0 ? LARGEST / largest : 0);
  for (; from < end; from += 16, into += 8) {
    const rounded = nearestInts(f32x4.mul(v128.load(from), inverse));
    v128.store64_lane(into, i16x8.narrow_i32x4_s(rounded, rounded), 0);
  }
  store<f32>(into, largest / LARGEST);
}

/** Multiplies four queries, rounded by `roundQuery` and `stride` bytes apart, with the keys of a tile. */
export function scoreFourRounded(
  tile: usize,
  headSize: u32,
  queries: usize,
  stride: usize,
  into: usize,
): void {
  const scales = tile + <usize> headSize * TILE;
  const units = queries + <usize> headSize * 2;
  // Eight keys at a time.
  for (let half: usize = 0; half < 2; half++) {
    let a0 = i32x4.splat(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    let a = queries;
    let b = a + stride;
    let c = b + stride;
    let d = c + stride;
    for (let at = tile + half * 16; at < scales; at += TILE * 2) {
      const keys = v128.load(at);
      const k0 = i16x8.extend_low_i8x16_s(keys);
      const k1 = i16x8.extend_high_i8x16_s(keys);
      let q = v128.load32_splat(a);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(k0, q));
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(k1, q));
      q = v128.load32_splat(b);
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(k0, q));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(k1, q));
      q = v128.load32_splat(c);
      c0 = i32x4.add(c0, i32x4.dot_i16x8_s(k0, q));
      c1 = i32x4.add(c1, i32x4.dot_i16x8_s(k1, q));
      q = v128.load32_splat(d);
      d0 = i32x4.add(d0, i32x4.dot_i16x8_s(k0, q));
      d1 = i32x4.add(d1, i32x4.dot_i16x8_s(k1, q));
      a += 4;
      b += 4;
      c += 4;
      d += 4;
    }
    const s0 = v128.load(scales + half * 32);
    const s1 = v128.load(scales + half * 32, 16);
    const to = into + half * 32;
    storeScores(to, a0, a1, s0, s1, units);
    storeScores(to + SCORES_BYTES, b0, b1, s0, s1, units + stride);
    storeScores(to + SCORES_BYTES * 2, c0, c1, s0, s1, units + stride * 2);
    storeScores(to + SCORES_BYTES * 3, d0, d1, s0, s1, units + stride * 3);
  }
}

/** Like {@linkcode scoreFourRounded}, for two queries. */
export function scoreTwoRounded(
  tile: usize,
  headSize: u32,
  queries: usize,
  stride: usize,
  into: usize,
): void {
  const scales = tile + <usize> headSize * TILE;
  let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  let a = queries;
  let b = a + stride;
  for (let at = tile; at < scales; at += TILE * 2, a += 4, b += 4) {
    const p = v128.load32_splat(a);
    const q = v128.load32_splat(b);
    let keys = v128.load(at);
    let k = i16x8.extend_low_i8x16_s(keys);
    a0 = i32x4.add(a0, i32x4.dot_i16x8_s(k, p));
    b0 = i32x4.add(b0, i32x4.dot_i16x8_s(k, q));
    k = i16x8.extend_high_i8x16_s(keys);
    a1 = i32x4.add(a1, i32x4.dot_i16x8_s(k, p));
    b1 = i32x4.add(b1, i32x4.dot_i16x8_s(k, q));
    keys = v128.load(at, 16);
    k = i16x8.extend_low_i8x16_s(keys);
    a2 = i32x4.add(a2, i32x4.dot_i16x8_s(k, p));
    b2 = i32x4.add(b2, i32x4.dot_i16x8_s(k, q));
    k = i16x8.extend_high_i8x16_s(keys);
    a3 = i32x4.add(a3, i32x4.dot_i16x8_s(k, p));
    b3 = i32x4.add(b3, i32x4.dot_i16x8_s(k, q));
  }
  const s0 = v128.load(scales);
  const s1 = v128.load(scales, 16);
  const s2 = v128.load(scales, 32);
  const s3 = v128.load(scales, 48);
  storeScores(into, a0, a1, s0, s1, a);
  storeScores(into + 32, a2, a3, s2, s3, a);
  storeScores(into + SCORES_BYTES, b0, b1, s0, s1, b);
  storeScores(into + SCORES_BYTES + 32, b2, b3, s2, s3, b);
}

/** Like {@linkcode scoreFourRounded}, for one query. */
export function scoreOneRounded(tile: usize, headSize: u32, query: usize, into: usize): void {
  const scales = tile + <usize> headSize * TILE;
  let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0;
  for (let at = tile; at < scales; at += TILE * 2, query += 4) {
    const q = v128.load32_splat(query);
    let keys = v128.load(at);
    a0 = i32x4.add(a0, i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(keys), q));
    a1 = i32x4.add(a1, i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(keys), q));
    keys = v128.load(at, 16);
    a2 = i32x4.add(a2, i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(keys), q));
    a3 = i32x4.add(a3, i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(keys), q));
  }
  storeScores(into, a0, a1, v128.load(scales), v128.load(scales, 16), query);
  storeScores(into + 32, a2, a3, v128.load(scales, 32), v128.load(scales, 48), query);
}

/** @param unit address of the value that 1 stands for in the query. */
@inline
function storeScores(into: usize, x0: v128, x1: v128, s0: v128, s1: v128, unit: usize): void {
  const u = v128.load32_splat(unit);
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(x0), f32x4.mul(s0, u)));
  v128.store(into, f32x4.mul(f32x4.convert_i32x4_s(x1), f32x4.mul(s1, u)), 16);
}

/**
 * Rounds the weights of a tile's values, times the values' scales, in place.
 *
 * @param at f32 `[TILE]`; afterwards i16 `[TILE]`, then f32, the value that 1 stands for.
 * @param scales f32 `[TILE]`.
 * @param from index of the first value that the row sees. Values before it, and at `until` and beyond, get a weight of
 * 0.
 */
export function roundWeights(at: usize, scales: usize, from: i32, until: i32): void {
  const w0 = weightsAt(at, scales, 0, from, until);
  const w1 = weightsAt(at, scales, 4, from, until);
  const w2 = weightsAt(at, scales, 8, from, until);
  const w3 = weightsAt(at, scales, 12, from, until);
  const largest = largestLane(f32x4.max(f32x4.max(w0, w1), f32x4.max(w2, w3)));
  const inverse = f32x4.splat(largest > 0 ? LARGEST / largest : 0);
  const low = i16x8.narrow_i32x4_s(
    nearestInts(f32x4.mul(w0, inverse)),
    nearestInts(f32x4.mul(w1, inverse)),
  );
  const high = i16x8.narrow_i32x4_s(
    nearestInts(f32x4.mul(w2, inverse)),
    nearestInts(f32x4.mul(w3, inverse)),
  );
  v128.store(at, low);
  v128.store(at, high, 16);
  store<f32>(at, largest / LARGEST, UNIT);
}

/** Four weights times scales; 0 for values that the row does not see. */
@inline
function weightsAt(at: usize, scales: usize, first: i32, from: i32, until: i32): v128 {
  const offset = <usize> first * 4;
  const index = i32x4.add(i32x4.splat(first), i32x4(0, 1, 2, 3));
  const isSeen = v128.and(
    i32x4.ge_s(index, i32x4.splat(from)),
    i32x4.lt_s(index, i32x4.splat(until)),
  );
  return v128.and(f32x4.mul(v128.load(at + offset), v128.load(scales + offset)), isSeen);
}

/**
 * Adds the weighted values of a tile to the sums of four rows.
 *
 * @param weights from {@linkcode roundWeights}, `SCORES_BYTES` from one row's to the next.
 * @param sums f32 `[4, headSize]`.
 */
export function addFourRounded(tile: usize, headSize: u32, weights: usize, sums: usize): void {
  addRounded(4, tile, headSize, weights, sums);
}

/** Like {@linkcode addFourRounded}, for two rows. */
export function addTwoRounded(tile: usize, headSize: u32, weights: usize, sums: usize): void {
  addRounded(2, tile, headSize, weights, sums);
}

/** Like {@linkcode addFourRounded}, for one row. */
export function addOneRounded(tile: usize, headSize: u32, weights: usize, sum: usize): void {
  addRounded(1, tile, headSize, weights, sum);
}

/** @param count number of rows, which the compiler knows where this is inlined. */
@inline
function addRounded(count: u32, tile: usize, headSize: u32, weights: usize, sums: usize): void {
  const headBytes = <usize> headSize * 4;
  const pairBytes = <usize> headSize * 2;
  const end = sums + headBytes;
  for (; sums < end; sums += 32, tile += 16) {
    let a0 = i32x4.splat(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    let value = tile;
    for (let at = weights; at < weights + UNIT; at += 4, value += pairBytes) {
      const values = v128.load(value);
      const v0 = i16x8.extend_low_i8x16_s(values);
      const v1 = i16x8.extend_high_i8x16_s(values);
      let w = v128.load32_splat(at);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(v0, w));
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(v1, w));
      if (count === 1) continue;
      w = v128.load32_splat(at, SCORES_BYTES);
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(v0, w));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(v1, w));
      if (count === 2) continue;
      w = v128.load32_splat(at, SCORES_BYTES * 2);
      c0 = i32x4.add(c0, i32x4.dot_i16x8_s(v0, w));
      c1 = i32x4.add(c1, i32x4.dot_i16x8_s(v1, w));
      w = v128.load32_splat(at, SCORES_BYTES * 3);
      d0 = i32x4.add(d0, i32x4.dot_i16x8_s(v0, w));
      d1 = i32x4.add(d1, i32x4.dot_i16x8_s(v1, w));
    }
    // If a head has an odd number of vec4s, it ends in the middle of a vector.
    const isWhole = sums + 32 <= end;
    const unit = weights + UNIT;
    addSums(sums, a0, a1, unit, isWhole);
    if (count === 1) continue;
    addSums(sums + headBytes, b0, b1, unit + SCORES_BYTES, isWhole);
    if (count === 2) continue;
    addSums(sums + headBytes * 2, c0, c1, unit + SCORES_BYTES * 2, isWhole);
    addSums(sums + headBytes * 3, d0, d1, unit + SCORES_BYTES * 3, isWhole);
  }
}

@inline
function addSums(at: usize, x0: v128, x1: v128, unit: usize, isWhole: bool): void {
  const u = v128.load32_splat(unit);
  v128.store(at, madd(f32x4.convert_i32x4_s(x0), u, v128.load(at)));
  if (isWhole) v128.store(at, madd(f32x4.convert_i32x4_s(x1), u, v128.load(at, 16)), 16);
}

@inline
function nearestInts(x: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(x));
}
