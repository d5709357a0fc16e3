/**
 * Products of rows with groups of an f32 matrix.
 *
 * Eight sums of four outputs each are kept in flight, enough to hide the latency of an addition: four groups for one
 * row, two groups for two rows, one group for four rows. The groups lie far from each other, because a single stream of
 * weights would stall at the beginning of each memory page.
 */
import { FLOAT_GROUP_BYTES, FloatProduct, FloatRows } from "./product_layout";
import { madd } from "./vectors";

/** Multiplies the rows with `count` groups, and stores the results `rowBytes` apart. */
export function multiplyFloats(
  node: FloatProduct,
  rows: FloatRows,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
): void {
  const bytes = <usize> node.k * FLOAT_GROUP_BYTES;
  const weights = node.weights + <usize> first * bytes;
  const numRows = <usize> rows.numRows;
  const x = rows.x;
  const stride = rows.stride;
  if (numRows === 1) return one(weights, bytes, count, x, out);
  if (numRows === 2) return two(weights, bytes, count, x, stride, out, rowBytes);
  const end = weights + <usize> count * bytes;
  for (let at = weights; at < end; at += bytes, out += FLOAT_GROUP_BYTES) {
    // Later rows find the group in the cache. If fewer than four rows are left, some are computed twice.
    for (let row: usize = 0; row < numRows; row += 4) {
      const b = min(row + 1, numRows - 1);
      const c = min(row + 2, numRows - 1);
      const d = min(row + 3, numRows - 1);
      four(
        at,
        bytes,
        x + row * stride,
        x + b * stride,
        x + c * stride,
        x + d * stride,
        out + row * rowBytes,
        out + b * rowBytes,
        out + c * rowBytes,
        out + d * rowBytes,
      );
    }
  }
}

/** One row with four streams, which overlap at the end. */
function one(weights: usize, bytes: usize, count: u32, x: usize, out: usize): void {
  const length = <usize> ((count + 3) / 4);
  const last = <usize> count - length;
  const s1 = min(length, last);
  const s2 = min(2 * length, last);
  let p0 = weights;
  let p1 = weights + s1 * bytes;
  let p2 = weights + s2 * bytes;
  let p3 = weights + last * bytes;
  for (const end = out + length * FLOAT_GROUP_BYTES; out < end; out += FLOAT_GROUP_BYTES) {
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0;
    let c1 = a0;
    let d0 = a0;
    let d1 = a0;
    let from = x;
    for (const stop = p0 + bytes; p0 < stop; from += 8) {
      let element = v128.load32_splat(from);
      a0 = madd(v128.load(p0), element, a0);
      a1 = madd(v128.load(p0, 16), element, a1);
      b0 = madd(v128.load(p1), element, b0);
      b1 = madd(v128.load(p1, 16), element, b1);
      c0 = madd(v128.load(p2), element, c0);
      c1 = madd(v128.load(p2, 16), element, c1);
      d0 = madd(v128.load(p3), element, d0);
      d1 = madd(v128.load(p3, 16), element, d1);
      element = v128.load32_splat(from, 4);
      a0 = madd(v128.load(p0, 32), element, a0);
      a1 = madd(v128.load(p0, 48), element, a1);
      b0 = madd(v128.load(p1, 32), element, b0);
      b1 = madd(v128.load(p1, 48), element, b1);
      c0 = madd(v128.load(p2, 32), element, c0);
      c1 = madd(v128.load(p2, 48), element, c1);
      d0 = madd(v128.load(p3, 32), element, d0);
      d1 = madd(v128.load(p3, 48), element, d1);
      p0 += 64;
      p1 += 64;
      p2 += 64;
      p3 += 64;
    }
    store(out, a0, a1);
    store(out + s1 * FLOAT_GROUP_BYTES, b0, b1);
    store(out + s2 * FLOAT_GROUP_BYTES, c0, c1);
    store(out + last * FLOAT_GROUP_BYTES, d0, d1);
  }
}

/** Two rows with two streams, which overlap at the end. */
function two(
  weights: usize,
  bytes: usize,
  count: u32,
  x: usize,
  stride: usize,
  out: usize,
  rowBytes: usize,
): void {
  const length = <usize> ((count + 1) / 2);
  const last = <usize> count - length;
  let p0 = weights;
  let p1 = weights + last * bytes;
  const other = last * FLOAT_GROUP_BYTES;
  for (const end = out + length * FLOAT_GROUP_BYTES; out < end; out += FLOAT_GROUP_BYTES) {
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0;
    let c1 = a0;
    let d0 = a0;
    let d1 = a0;
    let from = x;
    let fromNext = x + stride;
    for (const stop = p0 + bytes; p0 < stop; from += 4, fromNext += 4) {
      const element = v128.load32_splat(from);
      const next = v128.load32_splat(fromNext);
      let w = v128.load(p0);
      a0 = madd(w, element, a0);
      c0 = madd(w, next, c0);
      w = v128.load(p0, 16);
      a1 = madd(w, element, a1);
      c1 = madd(w, next, c1);
      w = v128.load(p1);
      b0 = madd(w, element, b0);
      d0 = madd(w, next, d0);
      w = v128.load(p1, 16);
      b1 = madd(w, element, b1);
      d1 = madd(w, next, d1);
      p0 += 32;
      p1 += 32;
    }
    store(out, a0, a1);
    store(out + other, b0, b1);
    store(out + rowBytes, c0, c1);
    store(out + rowBytes + other, d0, d1);
  }
}

/** Four rows with one group. */
@inline
function four(
  p: usize,
  bytes: usize,
  xa: usize,
  xb: usize,
  xc: usize,
  xd: usize,
  outA: usize,
  outB: usize,
  outC: usize,
  outD: usize,
): void {
  let a0 = f32x4.splat(0);
  let a1 = a0;
  let b0 = a0;
  let b1 = a0;
  let c0 = a0;
  let c1 = a0;
  let d0 = a0;
  let d1 = a0;
  // Four elements per round, so that addresses are computed once.
  for (const stop = p + bytes; p < stop; p += 128) {
    let w0 = v128.load(p);
    let w1 = v128.load(p, 16);
    let element = v128.load32_splat(xa);
    a0 = madd(w0, element, a0);
    a1 = madd(w1, element, a1);
    element = v128.load32_splat(xb);
    b0 = madd(w0, element, b0);
    b1 = madd(w1, element, b1);
    element = v128.load32_splat(xc);
    c0 = madd(w0, element, c0);
    c1 = madd(w1, element, c1);
    element = v128.load32_splat(xd);
    d0 = madd(w0, element, d0);
    d1 = madd(w1, element, d1);
    w0 = v128.load(p, 32);
    w1 = v128.load(p, 48);
    element = v128.load32_splat(xa, 4);
    a0 = madd(w0, element, a0);
    a1 = madd(w1, element, a1);
    element = v128.load32_splat(xb, 4);
    b0 = madd(w0, element, b0);
    b1 = madd(w1, element, b1);
    element = v128.load32_splat(xc, 4);
    c0 = madd(w0, element, c0);
    c1 = madd(w1, element, c1);
    element = v128.load32_splat(xd, 4);
    d0 = madd(w0, element, d0);
    d1 = madd(w1, element, d1);
    w0 = v128.load(p, 64);
    w1 = v128.load(p, 80);
    element = v128.load32_splat(xa, 8);
    a0 = madd(w0, element, a0);
    a1 = madd(w1, element, a1);
    element = v128.load32_splat(xb, 8);
    b0 = madd(w0, element, b0);
    b1 = madd(w1, element, b1);
    element = v128.load32_splat(xc, 8);
    c0 = madd(w0, element, c0);
    c1 = madd(w1, element, c1);
    element = v128.load32_splat(xd, 8);
    d0 = madd(w0, element, d0);
    d1 = madd(w1, element, d1);
    w0 = v128.load(p, 96);
    w1 = v128.load(p, 112);
    element = v128.load32_splat(xa, 12);
    a0 = madd(w0, element, a0);
    a1 = madd(w1, element, a1);
    element = v128.load32_splat(xb, 12);
    b0 = madd(w0, element, b0);
    b1 = madd(w1, element, b1);
    element = v128.load32_splat(xc, 12);
    c0 = madd(w0, element, c0);
    c1 = madd(w1, element, c1);
    element = v128.load32_splat(xd, 12);
    d0 = madd(w0, element, d0);
    d1 = madd(w1, element, d1);
    xa += 16;
    xb += 16;
    xc += 16;
    xd += 16;
  }
  store(outA, a0, a1);
  store(outB, b0, b1);
  store(outC, c0, c1);
  store(outD, d0, d1);
}

@inline
function store(at: usize, low: v128, high: v128): void {
  v128.store(at, low);
  v128.store(at, high, 16);
}
