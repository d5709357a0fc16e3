/**
 * Products of one, two or four rows with groups of a matrix.
 *
 * Several streams of weights are read side by side, because a single one would stall at the beginning of each memory
 * page. The streams overlap at the end. As many sums are kept as there are registers for.
 *
 * `Paired` says whether rows come in pairs, which are the two parts of one row. For each block, the products of both
 * parts are then added together, and half as many sums are stored. The other type arguments are those of
 * `block_sums.ts`.
 */
import {
  add,
  addBlock,
  addBlockAt,
  addPair,
  addPairAt,
  addWeights,
  begin,
  blockBytes,
  is,
  loadTerms,
} from "./block_sums";
import { Product } from "./product_layout";
import { spread0, spread1, spread2, spread3 } from "./vectors";

/** One row with six streams. */
export function multiplyOne<Sum, Zeros>(
  node: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  mask: v128,
): void {
  const groupBytes = <usize> node.blocks * blockBytes<Zeros>();
  const length = (count + 5) / 6;
  const last = count - length;
  const s1 = min(length, last);
  const s2 = min(2 * length, last);
  const s3 = min(3 * length, last);
  const s4 = min(4 * length, last);
  let p0 = node.weights + <usize> first * groupBytes;
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
      const terms = loadTerms<Zeros>(x + 36);
      let a = begin<Sum, Zeros>(terms, p0);
      let b = is<Zeros>() ? begin<Sum, Zeros>(terms, p1) : a;
      let c = is<Zeros>() ? begin<Sum, Zeros>(terms, p2) : a;
      let d = is<Zeros>() ? begin<Sum, Zeros>(terms, p3) : a;
      let e = is<Zeros>() ? begin<Sum, Zeros>(terms, p4) : a;
      let f = is<Zeros>() ? begin<Sum, Zeros>(terms, p5) : a;
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
      p0 += blockBytes<Zeros>() - 64;
      p1 += blockBytes<Zeros>() - 64;
      p2 += blockBytes<Zeros>() - 64;
      p3 += blockBytes<Zeros>() - 64;
      p4 += blockBytes<Zeros>() - 64;
      p5 += blockBytes<Zeros>() - 64;
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

/** Two rows with three streams. */
export function multiplyTwo<Sum, Zeros, Paired>(
  node: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  const groupBytes = <usize> node.blocks * blockBytes<Zeros>();
  const length = (count + 2) / 3;
  const last = count - length;
  const s1 = min(length, last);
  let p0 = node.weights + <usize> first * groupBytes;
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
      const terms0 = loadTerms<Zeros>(x + 72);
      const terms1 = loadTerms<Zeros>(x + 76);
      let a0 = begin<Sum, Zeros>(terms0, p0);
      let a1 = begin<Sum, Zeros>(terms1, p0);
      let b0 = is<Zeros>() ? begin<Sum, Zeros>(terms0, p1) : a0;
      let b1 = is<Zeros>() ? begin<Sum, Zeros>(terms1, p1) : a1;
      let c0 = is<Zeros>() ? begin<Sum, Zeros>(terms0, p2) : a0;
      let c1 = is<Zeros>() ? begin<Sum, Zeros>(terms1, p2) : a1;
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
      const aScales = v128.load(p0);
      const bScales = v128.load(p1);
      const cScales = v128.load(p2);
      if (is<Paired>()) {
        a0Sum = addPair<Sum>(a0Sum, a0, a1, scale0, scale1, aScales);
        b0Sum = addPair<Sum>(b0Sum, b0, b1, scale0, scale1, bScales);
        c0Sum = addPair<Sum>(c0Sum, c0, c1, scale0, scale1, cScales);
      } else {
        a0Sum = addBlock<Sum>(a0Sum, a0, scale0, aScales);
        a1Sum = addBlock<Sum>(a1Sum, a1, scale1, aScales);
        b0Sum = addBlock<Sum>(b0Sum, b0, scale0, bScales);
        b1Sum = addBlock<Sum>(b1Sum, b1, scale1, bScales);
        c0Sum = addBlock<Sum>(c0Sum, c0, scale0, cScales);
        c1Sum = addBlock<Sum>(c1Sum, c1, scale1, cScales);
      }
      p0 += blockBytes<Zeros>() - 64;
      p1 += blockBytes<Zeros>() - 64;
      p2 += blockBytes<Zeros>() - 64;
      x += 16;
    }
    let to = out;
    v128.store(to, a0Sum);
    v128.store(to + <usize> s1 * 16, b0Sum);
    v128.store(to + <usize> last * 16, c0Sum);
    if (is<Paired>()) continue;
    to += rowBytes;
    v128.store(to, a1Sum);
    v128.store(to + <usize> s1 * 16, b1Sum);
    v128.store(to + <usize> last * 16, c1Sum);
  }
}

/**
 * Four rows with two streams. Registers hold the sums of a block; the second stream's sums over blocks are kept in
 * memory.
 */
export function multiplyFour<Sum, Zeros, Paired>(
  node: Product,
  tile: usize,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  const groupBytes = <usize> node.blocks * blockBytes<Zeros>();
  const length = (count + 1) / 2;
  const last = count - length;
  let p0 = node.weights + <usize> first * groupBytes;
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
    if (!is<Paired>()) {
      v128.store(out2 + apart, zero);
      v128.store(out3 + apart, zero);
    }
    for (const stop = p0 + groupBytes; p0 < stop;) {
      const terms0 = loadTerms<Zeros>(x + 144);
      const terms1 = loadTerms<Zeros>(x + 148);
      const terms2 = loadTerms<Zeros>(x + 152);
      const terms3 = loadTerms<Zeros>(x + 156);
      let a0 = begin<Sum, Zeros>(terms0, p0);
      let a1 = begin<Sum, Zeros>(terms1, p0);
      let a2 = begin<Sum, Zeros>(terms2, p0);
      let a3 = begin<Sum, Zeros>(terms3, p0);
      let b0 = is<Zeros>() ? begin<Sum, Zeros>(terms0, p1) : a0;
      let b1 = is<Zeros>() ? begin<Sum, Zeros>(terms1, p1) : a1;
      let b2 = is<Zeros>() ? begin<Sum, Zeros>(terms2, p1) : a2;
      let b3 = is<Zeros>() ? begin<Sum, Zeros>(terms3, p1) : a3;
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
      const aScales = v128.load(p0);
      const bScales = v128.load(p1);
      if (is<Paired>()) {
        let scale0 = v128.load32_splat(x);
        let scale1 = v128.load32_splat(x, 4);
        a0Sum = addPair<Sum>(a0Sum, a0, a1, scale0, scale1, aScales);
        addPairAt<Sum>(out + apart, b0, b1, scale0, scale1, bScales);
        scale0 = v128.load32_splat(x, 8);
        scale1 = v128.load32_splat(x, 12);
        a1Sum = addPair<Sum>(a1Sum, a2, a3, scale0, scale1, aScales);
        addPairAt<Sum>(out1 + apart, b2, b3, scale0, scale1, bScales);
      } else {
        let scale = v128.load32_splat(x);
        a0Sum = addBlock<Sum>(a0Sum, a0, scale, aScales);
        addBlockAt<Sum>(out + apart, b0, scale, bScales);
        scale = v128.load32_splat(x, 4);
        a1Sum = addBlock<Sum>(a1Sum, a1, scale, aScales);
        addBlockAt<Sum>(out1 + apart, b1, scale, bScales);
        scale = v128.load32_splat(x, 8);
        a2Sum = addBlock<Sum>(a2Sum, a2, scale, aScales);
        addBlockAt<Sum>(out2 + apart, b2, scale, bScales);
        scale = v128.load32_splat(x, 12);
        a3Sum = addBlock<Sum>(a3Sum, a3, scale, aScales);
        addBlockAt<Sum>(out3 + apart, b3, scale, bScales);
      }
      p0 += blockBytes<Zeros>() - 64;
      p1 += blockBytes<Zeros>() - 64;
      x += 32;
    }
    v128.store(out, a0Sum);
    v128.store(out1, a1Sum);
    if (is<Paired>()) continue;
    v128.store(out2, a2Sum);
    v128.store(out3, a3Sum);
  }
}
