/**
 * Inner loops of attention over six, two or one rows that share each load of a key or value. A row is a query of one
 * head.
 *
 * In products with keys, the lanes of a vector are keys; in the sum of values, they are elements of the head. So lanes
 * never have to be added up. The order in which a row's sums are added does not depend on the number of rows.
 */
import { TILE } from "./layout";
import { madd } from "./vectors";

/** Number of keys whose scores are kept at a time. */
export const KEYS: u32 = 256;
/** Bytes from one row's scores to the next row's. */
export const SCORES_BYTES: usize = <usize> KEYS * 4;

/**
 * Multiplies six queries with the keys of a tile. Twelve sums, two vectors of keys and one element of a query fill
 * fifteen of x64's registers.
 *
 * @param queries f32 `[headSize, 6]`.
 */
export function scoreSix(keys: usize, queries: usize, headBytes: usize, into: usize): void {
  const end = keys + headBytes * TILE;
  scoreSixByEight(keys, end, queries, into);
  scoreSixByEight(keys + 32, end, queries, into + 32);
}

function scoreSixByEight(keys: usize, end: usize, queries: usize, into: usize): void {
  let a0 = f32x4.splat(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0;
  let d0 = a0, d1 = a0, e0 = a0, e1 = a0, f0 = a0, f1 = a0;
  for (; keys < end; keys += TILE * 4, queries += 24) {
    const k0 = v128.load(keys);
    const k1 = v128.load(keys, 16);
    let q = v128.load32_splat(queries);
    a0 = madd(k0, q, a0);
    a1 = madd(k1, q, a1);
    q = v128.load32_splat(queries, 4);
    b0 = madd(k0, q, b0);
    b1 = madd(k1, q, b1);
    q = v128.load32_splat(queries, 8);
    c0 = madd(k0, q, c0);
    c1 = madd(k1, q, c1);
    q = v128.load32_splat(queries, 12);
    d0 = madd(k0, q, d0);
    d1 = madd(k1, q, d1);
    q = v128.load32_splat(queries, 16);
    e0 = madd(k0, q, e0);
    e1 = madd(k1, q, e1);
    q = v128.load32_splat(queries, 20);
    f0 = madd(k0, q, f0);
    f1 = madd(k1, q, f1);
  }
  store2(into, a0, a1);
  store2(into + SCORES_BYTES, b0, b1);
  store2(into + SCORES_BYTES * 2, c0, c1);
  store2(into + SCORES_BYTES * 3, d0, d1);
  store2(into + SCORES_BYTES * 4, e0, e1);
  store2(into + SCORES_BYTES * 5, f0, f1);
}

/** Multiplies two queries, f32 `[headSize, 2]`, with the keys of a tile. */
export function scoreTwo(keys: usize, queries: usize, headBytes: usize, into: usize): void {
  let a0 = f32x4.splat(0), a1 = a0, a2 = a0, a3 = a0;
  let b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  for (const end = keys + headBytes * TILE; keys < end; keys += TILE * 4, queries += 8) {
    const a = v128.load32_splat(queries);
    const b = v128.load32_splat(queries, 4);
    const k0 = v128.load(keys);
    const k1 = v128.load(keys, 16);
    const k2 = v128.load(keys, 32);
    const k3 = v128.load(keys, 48);
    a0 = madd(k0, a, a0);
    b0 = madd(k0, b, b0);
    a1 = madd(k1, a, a1);
    b1 = madd(k1, b, b1);
    a2 = madd(k2, a, a2);
    b2 = madd(k2, b, b2);
    a3 = madd(k3, a, a3);
    b3 = madd(k3, b, b3);
  }
  store4(into, a0, a1, a2, a3);
  store4(into + SCORES_BYTES, b0, b1, b2, b3);
}

/** Multiplies one query with the keys of a tile. */
export function scoreOne(keys: usize, query: usize, headBytes: usize, into: usize): void {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  for (const end = query + headBytes; query < end; query += 4, keys += TILE * 4) {
    const q = v128.load32_splat(query);
    s0 = madd(v128.load(keys), q, s0);
    s1 = madd(v128.load(keys, 16), q, s1);
    s2 = madd(v128.load(keys, 32), q, s2);
    s3 = madd(v128.load(keys, 48), q, s3);
  }
  store4(into, s0, s1, s2, s3);
}

function store2(at: usize, x0: v128, x1: v128): void {
  v128.store(at, x0);
  v128.store(at, x1, 16);
}

function store4(at: usize, x0: v128, x1: v128, x2: v128, x3: v128): void {
  store2(at, x0, x1);
  store2(at + 32, x2, x3);
}

/**
 * Adds `count` weighted values, `valueBytes` apart, to the sums of six rows: eight elements at a time, then four.
 *
 * @param sums f32 `[6, headSize]`.
 */
export function addSix(
  values: usize,
  valueBytes: usize,
  count: u32,
  headBytes: usize,
  weights: usize,
  sums: usize,
): void {
  const end = weights + <usize> count * 4;
  let done: usize = 0;
  for (; done + 32 <= headBytes; done += 32) {
    const a = sums + done, b = a + headBytes, c = b + headBytes;
    const d = c + headBytes, e = d + headBytes, f = e + headBytes;
    let a0 = v128.load(a), a1 = v128.load(a, 16), b0 = v128.load(b), b1 = v128.load(b, 16);
    let c0 = v128.load(c), c1 = v128.load(c, 16), d0 = v128.load(d), d1 = v128.load(d, 16);
    let e0 = v128.load(e), e1 = v128.load(e, 16), f0 = v128.load(f), f1 = v128.load(f, 16);
    let value = values + done;
    for (let at = weights; at < end; at += 4, value += valueBytes) {
      const v0 = v128.load(value);
      const v1 = v128.load(value, 16);
      let w = v128.load32_splat(at);
      a0 = madd(v0, w, a0);
      a1 = madd(v1, w, a1);
      w = v128.load32_splat(at, SCORES_BYTES);
      b0 = madd(v0, w, b0);
      b1 = madd(v1, w, b1);
      w = v128.load32_splat(at, SCORES_BYTES * 2);
      c0 = madd(v0, w, c0);
      c1 = madd(v1, w, c1);
      w = v128.load32_splat(at, SCORES_BYTES * 3);
      d0 = madd(v0, w, d0);
      d1 = madd(v1, w, d1);
      w = v128.load32_splat(at, SCORES_BYTES * 4);
      e0 = madd(v0, w, e0);
      e1 = madd(v1, w, e1);
      w = v128.load32_splat(at, SCORES_BYTES * 5);
      f0 = madd(v0, w, f0);
      f1 = madd(v1, w, f1);
    }
    store2(a, a0, a1);
    store2(b, b0, b1);
    store2(c, c0, c1);
    store2(d, d0, d1);
    store2(e, e0, e1);
    store2(f, f0, f1);
  }
  if (done === headBytes) return;
  for (let row: usize = 0; row < 6; row++) {
    addFour(values + done, valueBytes, weights + row * SCORES_BYTES, count, sums + row * headBytes + done);
  }
}

/** Like {@linkcode addSix}, for two rows, sixteen elements at a time. */
export function addTwo(
  values: usize,
  valueBytes: usize,
  count: u32,
  headBytes: usize,
  weights: usize,
  sums: usize,
): void {
  const end = weights + <usize> count * 4;
  let done: usize = 0;
  for (; done + 64 <= headBytes; done += 64) {
    const a = sums + done, b = a + headBytes;
    let a0 = v128.load(a), a1 = v128.load(a, 16), a2 = v128.load(a, 32), a3 = v128.load(a, 48);
    let b0 = v128.load(b), b1 = v128.load(b, 16), b2 = v128.load(b, 32), b3 = v128.load(b, 48);
    let value = values + done;
    for (let at = weights; at < end; at += 4, value += valueBytes) {
      const x = v128.load32_splat(at);
      const y = v128.load32_splat(at, SCORES_BYTES);
      const v0 = v128.load(value);
      const v1 = v128.load(value, 16);
      const v2 = v128.load(value, 32);
      const v3 = v128.load(value, 48);
      a0 = madd(v0, x, a0);
      b0 = madd(v0, y, b0);
      a1 = madd(v1, x, a1);
      b1 = madd(v1, y, b1);
      a2 = madd(v2, x, a2);
      b2 = madd(v2, y, b2);
      a3 = madd(v3, x, a3);
      b3 = madd(v3, y, b3);
    }
    store4(a, a0, a1, a2, a3);
    store4(b, b0, b1, b2, b3);
  }
  for (; done < headBytes; done += 16) {
    addFour(values + done, valueBytes, weights, count, sums + done);
    addFour(values + done, valueBytes, weights + SCORES_BYTES, count, sums + headBytes + done);
  }
}

/** Like {@linkcode addTwo}, for one row. */
export function addOne(
  values: usize,
  valueBytes: usize,
  count: u32,
  headBytes: usize,
  weights: usize,
  sum: usize,
): void {
  const end = weights + <usize> count * 4;
  let done: usize = 0;
  for (; done + 64 <= headBytes; done += 64) {
    const s = sum + done;
    let s0 = v128.load(s), s1 = v128.load(s, 16), s2 = v128.load(s, 32), s3 = v128.load(s, 48);
    let value = values + done;
    for (let at = weights; at < end; at += 4, value += valueBytes) {
      const w = v128.load32_splat(at);
      s0 = madd(v128.load(value), w, s0);
      s1 = madd(v128.load(value, 16), w, s1);
      s2 = madd(v128.load(value, 32), w, s2);
      s3 = madd(v128.load(value, 48), w, s3);
    }
    store4(s, s0, s1, s2, s3);
  }
  for (; done < headBytes; done += 16) {
    addFour(values + done, valueBytes, weights, count, sum + done);
  }
}

/** Adds to four elements of one row's sum. */
function addFour(value: usize, valueBytes: usize, weights: usize, count: u32, sum: usize): void {
  let s0 = v128.load(sum);
  for (const end = weights + <usize> count * 4; weights < end; weights += 4, value += valueBytes) {
    s0 = madd(v128.load(value), v128.load32_splat(weights), s0);
  }
  v128.store(sum, s0);
}

export function fillHead(at: usize, headBytes: usize): void {
  const zero = f32x4.splat(0);
  for (const end = at + headBytes; at < end; at += 16) v128.store(at, zero);
}

/** Multiplies a head by a factor, and writes it to another address or the same. */
export function scaleHead(from: usize, headBytes: usize, factor: f32, to: usize): void {
  const factors = f32x4.splat(factor);
  for (const end = from + headBytes; from < end; from += 16, to += 16) {
    v128.store(to, f32x4.mul(v128.load(from), factors));
  }
}
