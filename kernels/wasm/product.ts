/**
 * Products of a few rows with a matrix of 4-bit weights in blocks, and what follows them:
 *
 * `out[row, n] = scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias)) + residual[row, n]`
 *
 * Products of a block are sums of integers; blocks are added in f32, in their order.
 */
import { activate } from "./activation";
import { BLOCK, BLOCK_BYTES, GROUP, Product, QuantizedRows } from "./product_layout";

/** Does the parts `[first, end)` of the work. */
export function product(
  site: Product,
  rows: QuantizedRows,
  _items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  for (let part = first; part < end; part++) {
    const from = part * site.partGroups;
    const count = min(site.partGroups, site.numGroups - from);
    // Another row finds the part's weights in the cache.
    for (let row: u32 = 0; row < rows.numRows; row++) {
      const at = <usize> ((row * site.numGroups + from) * GROUP) * 4;
      const out = site.out + at;
      multiply(site, rows, row, site.firstGroup + from, count, out);
      if (site.isGated) multiply(site, rows, row, site.upGroup + from, count, scratch);
      const residual = site.residual ? site.residual + at : 0;
      complete(site, out, site.isGated ? scratch : 0, residual, from, count);
    }
  }
}

/** What follows the products of some groups. */
function complete(
  site: Product,
  out: usize,
  ups: usize,
  residual: usize,
  from: u32,
  count: u32,
): void {
  const scale = f32x4.splat(site.scale);
  const isScaled = site.scale !== 1;
  let bias = site.bias ? site.bias + <usize> (site.firstGroup + from) * 16 : 0;
  let upBias = site.bias ? site.bias + <usize> (site.upGroup + from) * 16 : 0;
  if (!bias && !ups && !residual && !isScaled && site.activation === 0) return;
  for (const end = out + <usize> count * 16; out < end; out += 16) {
    let x = v128.load(out);
    if (bias) x = f32x4.add(x, v128.load(bias));
    x = activate(site.activation, x);
    if (ups) {
      let up = v128.load(ups);
      if (bias) up = f32x4.add(up, v128.load(upBias));
      x = f32x4.mul(x, up);
      ups += 16;
    }
    if (bias) {
      bias += 16;
      upBias += 16;
    }
    if (isScaled) x = f32x4.mul(x, scale);
    if (residual) {
      x = f32x4.add(x, v128.load(residual));
      residual += 16;
    }
    v128.store(out, x);
  }
}

/** Two products of four levels each with those of a word of the row, in the lower and in the upper halves of bytes. */
@inline
function add(sum: v128, weights: v128, evens: v128, odds: v128): v128 {
  const mask = i8x16.splat(15);
  const low = i32x4.relaxed_dot_i8x16_i7x16_add_s(evens, v128.and(weights, mask), sum);
  const high = v128.and(i16x8.shr_u(weights, 4), mask);
  return i32x4.relaxed_dot_i8x16_i7x16_add_s(odds, high, low);
}

/** A sum of a block added to those of the blocks before it. */
@inline
function addBlock(sums: v128, block: v128, scale: v128, weightScales: v128): v128 {
  return f32x4.add(sums, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(block), scale), weightScales));
}

/**
 * Products of one row with `count` groups. Six streams of weights are read side by side: one alone would wait at the
 * beginning of each page of memory. They overlap at the end.
 */
function multiply(
  site: Product,
  rows: QuantizedRows,
  row: u32,
  first: u32,
  count: u32,
  out: usize,
): void {
  const blocks = site.blocks;
  const groupBytes = <usize> blocks * BLOCK_BYTES;
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
  const from = <usize> (row * blocks);
  for (const end = out + <usize> length * 16; out < end; out += 16) {
    let levels = rows.levels + from * BLOCK;
    let scales = rows.scales + from * 4;
    let offsets = rows.offsets + from * 4;
    let sum0 = f32x4.splat(0);
    let sum1 = sum0;
    let sum2 = sum0;
    let sum3 = sum0;
    let sum4 = sum0;
    let sum5 = sum0;
    for (const stop = p0 + groupBytes; p0 < stop;) {
      let c0 = v128.load32_splat(offsets);
      let c1 = c0;
      let c2 = c0;
      let c3 = c0;
      let c4 = c0;
      let c5 = c0;

      let evens = v128.load32_splat(levels);
      let odds = v128.load32_splat(levels, 16);
      c0 = add(c0, v128.load(p0), evens, odds);
      c1 = add(c1, v128.load(p1), evens, odds);
      c2 = add(c2, v128.load(p2), evens, odds);
      c3 = add(c3, v128.load(p3), evens, odds);
      c4 = add(c4, v128.load(p4), evens, odds);
      c5 = add(c5, v128.load(p5), evens, odds);

      evens = v128.load32_splat(levels, 4);
      odds = v128.load32_splat(levels, 20);
      c0 = add(c0, v128.load(p0, 16), evens, odds);
      c1 = add(c1, v128.load(p1, 16), evens, odds);
      c2 = add(c2, v128.load(p2, 16), evens, odds);
      c3 = add(c3, v128.load(p3, 16), evens, odds);
      c4 = add(c4, v128.load(p4, 16), evens, odds);
      c5 = add(c5, v128.load(p5, 16), evens, odds);

      evens = v128.load32_splat(levels, 8);
      odds = v128.load32_splat(levels, 24);
      c0 = add(c0, v128.load(p0, 32), evens, odds);
      c1 = add(c1, v128.load(p1, 32), evens, odds);
      c2 = add(c2, v128.load(p2, 32), evens, odds);
      c3 = add(c3, v128.load(p3, 32), evens, odds);
      c4 = add(c4, v128.load(p4, 32), evens, odds);
      c5 = add(c5, v128.load(p5, 32), evens, odds);

      evens = v128.load32_splat(levels, 12);
      odds = v128.load32_splat(levels, 28);
      c0 = add(c0, v128.load(p0, 48), evens, odds);
      c1 = add(c1, v128.load(p1, 48), evens, odds);
      c2 = add(c2, v128.load(p2, 48), evens, odds);
      c3 = add(c3, v128.load(p3, 48), evens, odds);
      c4 = add(c4, v128.load(p4, 48), evens, odds);
      c5 = add(c5, v128.load(p5, 48), evens, odds);

      const scale = v128.load32_splat(scales);
      sum0 = addBlock(sum0, c0, scale, v128.load(p0, 64));
      sum1 = addBlock(sum1, c1, scale, v128.load(p1, 64));
      sum2 = addBlock(sum2, c2, scale, v128.load(p2, 64));
      sum3 = addBlock(sum3, c3, scale, v128.load(p3, 64));
      sum4 = addBlock(sum4, c4, scale, v128.load(p4, 64));
      sum5 = addBlock(sum5, c5, scale, v128.load(p5, 64));

      p0 += BLOCK_BYTES;
      p1 += BLOCK_BYTES;
      p2 += BLOCK_BYTES;
      p3 += BLOCK_BYTES;
      p4 += BLOCK_BYTES;
      p5 += BLOCK_BYTES;
      levels += BLOCK;
      scales += 4;
      offsets += 4;
    }
    v128.store(out, sum0);
    v128.store(out + <usize> s1 * 16, sum1);
    v128.store(out + <usize> s2 * 16, sum2);
    v128.store(out + <usize> s3 * 16, sum3);
    v128.store(out + <usize> s4 * 16, sum4);
    v128.store(out + <usize> last * 16, sum5);
  }
}
