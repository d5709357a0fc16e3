/** Products of four rows with groups of a matrix; see `multiply.ts`. */
import {
  add,
  addBlock,
  addBlockAt,
  addPair,
  addPairAt,
  begin,
  blockBytes,
  is,
  loadTerms,
} from "./block_sums";
import { spread0, spread1, spread2, spread3 } from "./lanes";
import { Product } from "./product_layout";

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
