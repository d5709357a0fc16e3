/**
 * Products of a few rows with a matrix of 4-bit weights in blocks, and what follows them:
 *
 * `out[row, n] = cap(scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias))) + residual[row, n]`
 *
 * Products of a block are sums of integers; blocks are added in f32, in their order.
 */
import { activate, cap } from "./activation";
import { multiply } from "./multiply";
import { GROUP, Product, QuantizedRows, tileWidth } from "./product_layout";

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
    const rowBytes = <usize> site.numGroups * GROUP * 4;
    const scratchBytes = <usize> count * GROUP * 4;
    const halving: u32 = site.isPaired ? 1 : 0;
    // Another tile finds the part's weights in the cache.
    for (let row: u32 = 0; row < rows.numRows;) {
      const width = tileWidth(rows.numRows, row);
      const at = <usize> (row >> halving) * rowBytes + <usize> from * GROUP * 4;
      const out = site.out + at;
      multiply(site, rows, row, site.firstGroup + from, count, out, rowBytes);
      if (site.isGated) {
        multiply(site, rows, row, site.upGroup + from, count, scratch, scratchBytes);
      }
      for (let i: u32 = 0; i < width >> halving; i++) {
        const ups = site.isGated ? scratch + i * scratchBytes : 0;
        const residual = site.residual ? site.residual + at + i * rowBytes : 0;
        complete(site, out + i * rowBytes, ups, residual, from, count);
      }
      row += width;
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
  const isPlain = !bias && !ups && !residual && !isScaled && site.softcap === 0;
  if (isPlain && site.activation === 0) return;
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
    x = cap(x, site.softcap);
    if (residual) {
      x = f32x4.add(x, v128.load(residual));
      residual += 16;
    }
    v128.store(out, x);
  }
}
