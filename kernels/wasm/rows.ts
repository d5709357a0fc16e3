/**
 * What attentions do with one row, or two that share each load of a key or value. A row is a query of one head.
 *
 * In products with keys a vector's lanes are keys, so that no lanes are ever summed; in the sum of values they are
 * elements of the head.
 */
import { TILE } from "./layout";
import { madd } from "./softmax";

/** Products of two queries with the keys of a tile. */
export function scoreTwo(
  keys: usize,
  queryA: usize,
  queryB: usize,
  headBytes: usize,
  intoA: usize,
  intoB: usize,
): void {
  let a0 = f32x4.splat(0), a1 = a0, a2 = a0, a3 = a0;
  let b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  const end = queryA + headBytes;
  for (; queryA < end; queryA += 4, queryB += 4, keys += TILE * 4) {
    const a = v128.load32_splat(queryA);
    const b = v128.load32_splat(queryB);
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
  store4(intoA, a0, a1, a2, a3);
  store4(intoB, b0, b1, b2, b3);
}

/** Products of one query with the keys of a tile. */
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

function store4(at: usize, x0: v128, x1: v128, x2: v128, x3: v128): void {
  v128.store(at, x0);
  v128.store(at, x1, 16);
  v128.store(at, x2, 32);
  v128.store(at, x3, 48);
}

/** Adds `count` weighted values, `valueBytes` apart, to the sums of two rows: sixteen elements at a time, then four. */
export function addTwo(
  values: usize,
  valueBytes: usize,
  count: u32,
  headBytes: usize,
  weightsA: usize,
  weightsB: usize,
  sumA: usize,
  sumB: usize,
): void {
  const numWeights = <usize> count * 4;
  let done: usize = 0;
  for (; done + 64 <= headBytes; done += 64) {
    let a0 = v128.load(sumA + done), a1 = v128.load(sumA + done, 16);
    let a2 = v128.load(sumA + done, 32), a3 = v128.load(sumA + done, 48);
    let b0 = v128.load(sumB + done), b1 = v128.load(sumB + done, 16);
    let b2 = v128.load(sumB + done, 32), b3 = v128.load(sumB + done, 48);
    let value = values + done;
    for (let at: usize = 0; at < numWeights; at += 4, value += valueBytes) {
      const a = v128.load32_splat(weightsA + at);
      const b = v128.load32_splat(weightsB + at);
      const v0 = v128.load(value);
      const v1 = v128.load(value, 16);
      const v2 = v128.load(value, 32);
      const v3 = v128.load(value, 48);
      a0 = madd(v0, a, a0);
      b0 = madd(v0, b, b0);
      a1 = madd(v1, a, a1);
      b1 = madd(v1, b, b1);
      a2 = madd(v2, a, a2);
      b2 = madd(v2, b, b2);
      a3 = madd(v3, a, a3);
      b3 = madd(v3, b, b3);
    }
    store4(sumA + done, a0, a1, a2, a3);
    store4(sumB + done, b0, b1, b2, b3);
  }
  for (; done < headBytes; done += 16) {
    let a0 = v128.load(sumA + done);
    let b0 = v128.load(sumB + done);
    let value = values + done;
    for (let at: usize = 0; at < numWeights; at += 4, value += valueBytes) {
      const v0 = v128.load(value);
      a0 = madd(v0, v128.load32_splat(weightsA + at), a0);
      b0 = madd(v0, v128.load32_splat(weightsB + at), b0);
    }
    v128.store(sumA + done, a0);
    v128.store(sumB + done, b0);
  }
}

/** Adds `count` weighted values, `valueBytes` apart, to the sum of one row. */
export function addOne(
  values: usize,
  valueBytes: usize,
  count: u32,
  headBytes: usize,
  weights: usize,
  sum: usize,
): void {
  const numWeights = <usize> count * 4;
  let done: usize = 0;
  for (; done + 64 <= headBytes; done += 64) {
    let s0 = v128.load(sum + done), s1 = v128.load(sum + done, 16);
    let s2 = v128.load(sum + done, 32), s3 = v128.load(sum + done, 48);
    let value = values + done;
    for (let at: usize = 0; at < numWeights; at += 4, value += valueBytes) {
      const w = v128.load32_splat(weights + at);
      s0 = madd(v128.load(value), w, s0);
      s1 = madd(v128.load(value, 16), w, s1);
      s2 = madd(v128.load(value, 32), w, s2);
      s3 = madd(v128.load(value, 48), w, s3);
    }
    store4(sum + done, s0, s1, s2, s3);
  }
  for (; done < headBytes; done += 16) {
    let s0 = v128.load(sum + done);
    let value = values + done;
    for (let at: usize = 0; at < numWeights; at += 4, value += valueBytes) {
      s0 = madd(v128.load(value), v128.load32_splat(weights + at), s0);
    }
    v128.store(sum + done, s0);
  }
}

export function fillHead(at: usize, headBytes: usize): void {
  const zero = f32x4.splat(0);
  for (const end = at + headBytes; at < end; at += 16) v128.store(at, zero);
}

export function scaleHead(at: usize, headBytes: usize, factor: f32): void {
  const factors = f32x4.splat(factor);
  for (const end = at + headBytes; at < end; at += 16) {
    v128.store(at, f32x4.mul(v128.load(at), factors));
  }
}
