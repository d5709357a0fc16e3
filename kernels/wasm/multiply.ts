/**
 * Products of one, two or four rows with groups of a matrix.
 *
 * Several streams of weights are read side by side: one alone would wait at the beginning of each page of memory. They
 * overlap at the end. As many sums are kept as there are registers for.
 *
 * `Sum` is what sums of a block are kept in, with the same results. In i16 two products of 8 bits are an instruction on
 * x64, and four in i32 are three or more; where a processor has an instruction for four (ARM), i32 is less work.
 */
import { spread0, spread1, spread2, spread3 } from "./lanes";
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
  if (rows.sumsInShorts) {
    if (width === 1) multiplyOne<i16>(site, tile, first, count, out, mask);
    else if (width === 2) multiplyTwo<i16>(site, tile, first, count, out, rowBytes, mask);
    else multiplyFour<i16>(site, tile, first, count, out, rowBytes, mask);
  } else {
    if (width === 1) multiplyOne<i32>(site, tile, first, count, out, mask);
    else if (width === 2) multiplyTwo<i32>(site, tile, first, count, out, rowBytes, mask);
    else multiplyFour<i32>(site, tile, first, count, out, rowBytes, mask);
  }
}

/** What a block's sum begins with: two i16, as `quantizeRow` writes them. */
@inline
function begin<Sum>(at: usize): v128 {
  const terms = v128.load32_splat(at);
  return sizeof<Sum>() === 2 ? terms : i32x4.extadd_pairwise_i16x8_s(terms);
}

/** Two products of four levels each with those of a word of a row: weights of even and of odd numbers. */
@inline
function add<Sum>(sum: v128, low: v128, high: v128, evens: v128, odds: v128): v128 {
  if (sizeof<Sum>() === 4) {
    return i32x4.relaxed_dot_i8x16_i7x16_add_s(
      odds,
      high,
      i32x4.relaxed_dot_i8x16_i7x16_add_s(evens, low, sum),
    );
  }
  // Sixteen products of at most 15 * 127, and what they begin with is at most 8 * 16 * 127.
  return i16x8.add(
    i16x8.add(sum, i16x8.relaxed_dot_i8x16_i7x16_s(evens, low)),
    i16x8.relaxed_dot_i8x16_i7x16_s(odds, high),
  );
}

/** The same with weights as they are stored: the low halves of bytes before the high ones. */
@inline
function addWeights<Sum>(sum: v128, weights: v128, mask: v128, evens: v128, odds: v128): v128 {
  const high = v128.and(i16x8.shr_u(weights, 4), mask);
  return add<Sum>(sum, v128.and(weights, mask), high, evens, odds);
}

/** A sum of a block added to those of the blocks before it. */
@inline
function addBlock<Sum>(sums: v128, block: v128, scale: v128, weightScales: v128): v128 {
  const whole = sizeof<Sum>() === 2 ? i32x4.extadd_pairwise_i16x8_s(block) : block;
  return f32x4.add(sums, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(whole), scale), weightScales));
}

/** One row, six streams. */
function multiplyOne<Sum>(
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
      let a = begin<Sum>(x + 36);
      let b = a;
      let c = a;
      let d = a;
      let e = a;
      let f = a;
      for (const word = p0 + 64; p0 < word; x += 8) {
        const evens = v128.load32_splat(x);
        const odds = v128.load32_splat(x, 4);
        a = addWeights<Sum>(a, v128.load(p0), mask, evens, odds);
        b = addWeights<Sum>(b, v128.load(p1), mask, evens, odds);
        c = addWeights<Sum>(c, v128.load(p2), mask, evens, odds);
        d = addWeights<Sum>(d, v128.load(p3), mask, evens, odds);
        e = addWeights<Sum>(e, v128.load(p4), mask, evens, odds);
        f = addWeights<Sum>(f, v128.load(p5), mask, evens, odds);
        p0 += 16;
        p1 += 16;
        p2 += 16;
        p3 += 16;
        p4 += 16;
        p5 += 16;
      }
      const scale = v128.load32_splat(x);
      aSum = addBlock<Sum>(aSum, a, scale, v128.load(p0));
      bSum = addBlock<Sum>(bSum, b, scale, v128.load(p1));
      cSum = addBlock<Sum>(cSum, c, scale, v128.load(p2));
      dSum = addBlock<Sum>(dSum, d, scale, v128.load(p3));
      eSum = addBlock<Sum>(eSum, e, scale, v128.load(p4));
      fSum = addBlock<Sum>(fSum, f, scale, v128.load(p5));
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

/** Two rows, three streams. */
function multiplyTwo<Sum>(
  site: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  const groupBytes = <usize> site.blocks * BLOCK_BYTES;
  const length = (count + 2) / 3;
  const last = count - length;
  const s1 = min(length, last);
  let p0 = site.weights + <usize> first * groupBytes;
  let p1 = p0 + <usize> s1 * groupBytes;
  let p2 = p0 + <usize> last * groupBytes;
  for (const end = out + <usize> length * 16; out < end; out += 16) {
    let x = tile;
    let a0Sum = f32x4.splat(0);
    let a1Sum = a0Sum;
    let b0Sum = a0Sum;
    let b1Sum = a0Sum;
    let c0Sum = a0Sum;
    let c1Sum = a0Sum;
    for (const stop = p0 + groupBytes; p0 < stop;) {
      let a0 = begin<Sum>(x + 72);
      let a1 = begin<Sum>(x + 76);
      let b0 = a0;
      let b1 = a1;
      let c0 = a0;
      let c1 = a1;
      for (const word = p0 + 64; p0 < word; x += 16) {
        const words = v128.load(x);
        const evens0 = spread0(words);
        const evens1 = spread1(words);
        const odds0 = spread2(words);
        const odds1 = spread3(words);
        let weights = v128.load(p0);
        let low = v128.and(weights, mask);
        let high = v128.and(i16x8.shr_u(weights, 4), mask);
        a0 = add<Sum>(a0, low, high, evens0, odds0);
        a1 = add<Sum>(a1, low, high, evens1, odds1);
        weights = v128.load(p1);
        low = v128.and(weights, mask);
        high = v128.and(i16x8.shr_u(weights, 4), mask);
        b0 = add<Sum>(b0, low, high, evens0, odds0);
        b1 = add<Sum>(b1, low, high, evens1, odds1);
        weights = v128.load(p2);
        low = v128.and(weights, mask);
        high = v128.and(i16x8.shr_u(weights, 4), mask);
        c0 = add<Sum>(c0, low, high, evens0, odds0);
        c1 = add<Sum>(c1, low, high, evens1, odds1);
        p0 += 16;
        p1 += 16;
        p2 += 16;
      }
      const scale0 = v128.load32_splat(x);
      const scale1 = v128.load32_splat(x, 4);
      let weightScales = v128.load(p0);
      a0Sum = addBlock<Sum>(a0Sum, a0, scale0, weightScales);
      a1Sum = addBlock<Sum>(a1Sum, a1, scale1, weightScales);
      weightScales = v128.load(p1);
      b0Sum = addBlock<Sum>(b0Sum, b0, scale0, weightScales);
      b1Sum = addBlock<Sum>(b1Sum, b1, scale1, weightScales);
      weightScales = v128.load(p2);
      c0Sum = addBlock<Sum>(c0Sum, c0, scale0, weightScales);
      c1Sum = addBlock<Sum>(c1Sum, c1, scale1, weightScales);
      p0 += 16;
      p1 += 16;
      p2 += 16;
      x += 16;
    }
    let to = out;
    v128.store(to, a0Sum);
    v128.store(to + <usize> s1 * 16, b0Sum);
    v128.store(to + <usize> last * 16, c0Sum);
    to += rowBytes;
    v128.store(to, a1Sum);
    v128.store(to + <usize> s1 * 16, b1Sum);
    v128.store(to + <usize> last * 16, c1Sum);
  }
}

/** A sum of a block added to those in memory. */
@inline
function addBlockAt<Sum>(at: usize, block: v128, scale: v128, weightScales: v128): void {
  v128.store(at, addBlock<Sum>(v128.load(at), block, scale, weightScales));
}

/** Four rows, two streams. Registers hold sums of a block; those of the second stream's other blocks are in memory. */
function multiplyFour<Sum>(
  site: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  const groupBytes = <usize> site.blocks * BLOCK_BYTES;
  const length = (count + 1) / 2;
  const last = count - length;
  let p0 = site.weights + <usize> first * groupBytes;
  let p1 = p0 + <usize> last * groupBytes;
  const apart = <usize> last * 16;
  const zero = f32x4.splat(0);
  for (const end = out + <usize> length * 16; out < end; out += 16) {
    let x = tile;
    const out1 = out + rowBytes;
    const out2 = out1 + rowBytes;
    const out3 = out2 + rowBytes;
    let a0Sum = zero;
    let a1Sum = zero;
    let a2Sum = zero;
    let a3Sum = zero;
    v128.store(out + apart, zero);
    v128.store(out1 + apart, zero);
    v128.store(out2 + apart, zero);
    v128.store(out3 + apart, zero);
    for (const stop = p0 + groupBytes; p0 < stop;) {
      let a0 = begin<Sum>(x + 144);
      let a1 = begin<Sum>(x + 148);
      let a2 = begin<Sum>(x + 152);
      let a3 = begin<Sum>(x + 156);
      let b0 = a0;
      let b1 = a1;
      let b2 = a2;
      let b3 = a3;
      for (const word = p0 + 64; p0 < word; x += 32) {
        let weights = v128.load(p0);
        const low = v128.and(weights, mask);
        const high = v128.and(i16x8.shr_u(weights, 4), mask);
        weights = v128.load(p1);
        const bLow = v128.and(weights, mask);
        const bHigh = v128.and(i16x8.shr_u(weights, 4), mask);
        const evenWords = v128.load(x);
        const oddWords = v128.load(x, 16);
        let evens = spread0(evenWords);
        let odds = spread0(oddWords);
        a0 = add<Sum>(a0, low, high, evens, odds);
        b0 = add<Sum>(b0, bLow, bHigh, evens, odds);
        evens = spread1(evenWords);
        odds = spread1(oddWords);
        a1 = add<Sum>(a1, low, high, evens, odds);
        b1 = add<Sum>(b1, bLow, bHigh, evens, odds);
        evens = spread2(evenWords);
        odds = spread2(oddWords);
        a2 = add<Sum>(a2, low, high, evens, odds);
        b2 = add<Sum>(b2, bLow, bHigh, evens, odds);
        evens = spread3(evenWords);
        odds = spread3(oddWords);
        a3 = add<Sum>(a3, low, high, evens, odds);
        b3 = add<Sum>(b3, bLow, bHigh, evens, odds);
        p0 += 16;
        p1 += 16;
      }
      const weightScales = v128.load(p0);
      const bScales = v128.load(p1);
      let scale = v128.load32_splat(x);
      a0Sum = addBlock<Sum>(a0Sum, a0, scale, weightScales);
      addBlockAt<Sum>(out + apart, b0, scale, bScales);
      scale = v128.load32_splat(x, 4);
      a1Sum = addBlock<Sum>(a1Sum, a1, scale, weightScales);
      addBlockAt<Sum>(out1 + apart, b1, scale, bScales);
      scale = v128.load32_splat(x, 8);
      a2Sum = addBlock<Sum>(a2Sum, a2, scale, weightScales);
      addBlockAt<Sum>(out2 + apart, b2, scale, bScales);
      scale = v128.load32_splat(x, 12);
      a3Sum = addBlock<Sum>(a3Sum, a3, scale, weightScales);
      addBlockAt<Sum>(out3 + apart, b3, scale, bScales);
      p0 += 16;
      p1 += 16;
      x += 32;
    }
    v128.store(out, a0Sum);
    v128.store(out1, a1Sum);
    v128.store(out2, a2Sum);
    v128.store(out3, a3Sum);
  }
}
