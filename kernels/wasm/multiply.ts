/**
 * Products of one or two rows with groups of a matrix.
 *
 * Several streams of weights are read side by side: one alone would wait at the beginning of each page of memory. They
 * overlap at the end. As many sums are kept as there are registers for.
 */
import { BLOCK_BYTES, Product, QuantizedRows, ROW_BLOCK_BYTES, tileWidth } from "./product_layout";

/** Multiplies the rows of the tile that begins with `row` with `count` groups, and stores them `rowBytes` apart. */
export function multiply(
  site: Product,
  rows: QuantizedRows,
  row: u32,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
): void {
  const mask = i8x16.splat(<i8> rows.levelMask);
  const tile = rows.tiles + <usize> (row * site.blocks) * ROW_BLOCK_BYTES;
  const width = tileWidth(rows.numRows, row);
  if (width === 1) multiplyOne(site, tile, first, count, out, mask);
  else multiplyTwo(site, tile, first, count, out, rowBytes, mask);
}

/** Two products of four levels each with those of a word of a row: weights of even and of odd numbers. */
@inline
function add(sum: v128, low: v128, high: v128, evens: v128, odds: v128): v128 {
  return i32x4.relaxed_dot_i8x16_i7x16_add_s(
    odds,
    high,
    i32x4.relaxed_dot_i8x16_i7x16_add_s(evens, low, sum),
  );
}

/** The same with weights as they are stored: the low halves of bytes before the high ones. */
@inline
function addWeights(sum: v128, weights: v128, mask: v128, evens: v128, odds: v128): v128 {
  const high = v128.and(i16x8.shr_u(weights, 4), mask);
  return add(sum, v128.and(weights, mask), high, evens, odds);
}

/** A sum of a block added to those of the blocks before it. */
@inline
function addBlock(sums: v128, block: v128, scale: v128, weightScales: v128): v128 {
  return f32x4.add(sums, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(block), scale), weightScales));
}

/** One row, six streams. */
function multiplyOne(
  site: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  mask: v128,
): void {
  const groupBytes = <usize> site.blocks * BLOCK_BYTES;
  const length = (count + 5) / 6;
  const last = count - length;
  const s1 = min(length, last);
  const s2 = min(2 * length, last);
  const s3 = min(3 * length, last);
  const s4 = min(4 * length, last);
  let p0 = site.weights + <usize> first * groupBytes;
  let p1 = p0 + <usize> s1 * groupBytes;
  let p2 = p0 + <usize> s2 * groupBytes;
  let p3 = p0 + <usize> s3 * groupBytes;
  let p4 = p0 + <usize> s4 * groupBytes;
  let p5 = p0 + <usize> last * groupBytes;
  for (const end = out + <usize> length * 16; out < end; out += 16) {
    let x = tile;
    let aSum = f32x4.splat(0);
    let bSum = aSum;
    let cSum = aSum;
    let dSum = aSum;
    let eSum = aSum;
    let fSum = aSum;
    for (const stop = p0 + groupBytes; p0 < stop;) {
      let a = v128.load32_splat(x, 36);
      let b = a;
      let c = a;
      let d = a;
      let e = a;
      let f = a;
      for (const word = p0 + 64; p0 < word; x += 8) {
        const evens = v128.load32_splat(x);
        const odds = v128.load32_splat(x, 4);
        a = addWeights(a, v128.load(p0), mask, evens, odds);
        b = addWeights(b, v128.load(p1), mask, evens, odds);
        c = addWeights(c, v128.load(p2), mask, evens, odds);
        d = addWeights(d, v128.load(p3), mask, evens, odds);
        e = addWeights(e, v128.load(p4), mask, evens, odds);
        f = addWeights(f, v128.load(p5), mask, evens, odds);
        p0 += 16;
        p1 += 16;
        p2 += 16;
        p3 += 16;
        p4 += 16;
        p5 += 16;
      }
      const scale = v128.load32_splat(x);
      aSum = addBlock(aSum, a, scale, v128.load(p0));
      bSum = addBlock(bSum, b, scale, v128.load(p1));
      cSum = addBlock(cSum, c, scale, v128.load(p2));
      dSum = addBlock(dSum, d, scale, v128.load(p3));
      eSum = addBlock(eSum, e, scale, v128.load(p4));
      fSum = addBlock(fSum, f, scale, v128.load(p5));
      p0 += 16;
      p1 += 16;
      p2 += 16;
      p3 += 16;
      p4 += 16;
      p5 += 16;
      x += 8;
    }
    v128.store(out, aSum);
    v128.store(out + <usize> s1 * 16, bSum);
    v128.store(out + <usize> s2 * 16, cSum);
    v128.store(out + <usize> s3 * 16, dSum);
    v128.store(out + <usize> s4 * 16, eSum);
    v128.store(out + <usize> last * 16, fSum);
  }
}

/** Two rows, four streams. */
function multiplyTwo(
  site: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  const groupBytes = <usize> site.blocks * BLOCK_BYTES;
  const length = (count + 3) / 4;
  const last = count - length;
  const s1 = min(length, last);
  const s2 = min(2 * length, last);
  let p0 = site.weights + <usize> first * groupBytes;
  let p1 = p0 + <usize> s1 * groupBytes;
  let p2 = p0 + <usize> s2 * groupBytes;
  let p3 = p0 + <usize> last * groupBytes;
  for (const end = out + <usize> length * 16; out < end; out += 16) {
    let x = tile;
    let a0Sum = f32x4.splat(0);
    let a1Sum = a0Sum;
    let b0Sum = a0Sum;
    let b1Sum = a0Sum;
    let c0Sum = a0Sum;
    let c1Sum = a0Sum;
    let d0Sum = a0Sum;
    let d1Sum = a0Sum;
    for (const stop = p0 + groupBytes; p0 < stop;) {
      let a0 = v128.load32_splat(x, 72);
      let a1 = v128.load32_splat(x, 76);
      let b0 = a0;
      let b1 = a1;
      let c0 = a0;
      let c1 = a1;
      let d0 = a0;
      let d1 = a1;
      for (const word = p0 + 64; p0 < word; x += 16) {
        const evens0 = v128.load32_splat(x, 0);
        const odds0 = v128.load32_splat(x, 8);
        const evens1 = v128.load32_splat(x, 4);
        const odds1 = v128.load32_splat(x, 12);
        let weights = v128.load(p0);
        let low = v128.and(weights, mask);
        let high = v128.and(i16x8.shr_u(weights, 4), mask);
        a0 = add(a0, low, high, evens0, odds0);
        a1 = add(a1, low, high, evens1, odds1);
        weights = v128.load(p1);
        low = v128.and(weights, mask);
        high = v128.and(i16x8.shr_u(weights, 4), mask);
        b0 = add(b0, low, high, evens0, odds0);
        b1 = add(b1, low, high, evens1, odds1);
        weights = v128.load(p2);
        low = v128.and(weights, mask);
        high = v128.and(i16x8.shr_u(weights, 4), mask);
        c0 = add(c0, low, high, evens0, odds0);
        c1 = add(c1, low, high, evens1, odds1);
        weights = v128.load(p3);
        low = v128.and(weights, mask);
        high = v128.and(i16x8.shr_u(weights, 4), mask);
        d0 = add(d0, low, high, evens0, odds0);
        d1 = add(d1, low, high, evens1, odds1);
        p0 += 16;
        p1 += 16;
        p2 += 16;
        p3 += 16;
      }
      const scale0 = v128.load32_splat(x);
      const scale1 = v128.load32_splat(x, 4);
      let weightScales = v128.load(p0);
      a0Sum = addBlock(a0Sum, a0, scale0, weightScales);
      a1Sum = addBlock(a1Sum, a1, scale1, weightScales);
      weightScales = v128.load(p1);
      b0Sum = addBlock(b0Sum, b0, scale0, weightScales);
      b1Sum = addBlock(b1Sum, b1, scale1, weightScales);
      weightScales = v128.load(p2);
      c0Sum = addBlock(c0Sum, c0, scale0, weightScales);
      c1Sum = addBlock(c1Sum, c1, scale1, weightScales);
      weightScales = v128.load(p3);
      d0Sum = addBlock(d0Sum, d0, scale0, weightScales);
      d1Sum = addBlock(d1Sum, d1, scale1, weightScales);
      p0 += 16;
      p1 += 16;
      p2 += 16;
      p3 += 16;
      x += 16;
    }
    let to = out;
    v128.store(to, a0Sum);
    v128.store(to + <usize> s1 * 16, b0Sum);
    v128.store(to + <usize> s2 * 16, c0Sum);
    v128.store(to + <usize> last * 16, d0Sum);
    to += rowBytes;
    v128.store(to, a1Sum);
    v128.store(to + <usize> s1 * 16, b1Sum);
    v128.store(to + <usize> s2 * 16, c1Sum);
    v128.store(to + <usize> last * 16, d1Sum);
  }
}
