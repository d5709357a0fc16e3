/**
 * Products of few rows with a matrix of 4-bit weights in blocks, and the operations after them:
 *
 * `out[row, n] = cap(scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias))) + residual[row,
 * n]`
 *
 * Products within a block are summed as integers; blocks are added in f32, in order.
 */
import { activate, cap } from "./activation";
import { multiply } from "./multiply";
import { GROUP, Product, QuantizedRows, tileWidth } from "./product_layout";

/** Does the parts `[first, end)` of the work. */
export function product(
  node: Product,
  rows: QuantizedRows,
  _items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  for (let part = first; part < end; part++) {
    const from = part * node.partGroups;
    const count = min(node.partGroups, node.numGroups - from);
    const rowBytes = <usize> node.numGroups * GROUP * 4;
    const scratchBytes = <usize> count * GROUP * 4;
    const halving: u32 = node.isPaired ? 1 : 0;
    // Later tiles find the part's weights in the cache.
    for (let row: u32 = 0; row < rows.numRows;) {
      const width = tileWidth(rows.numRows, row);
      const at = <usize> (row >> halving) * rowBytes + <usize> from * GROUP * 4;
      const out = node.out + at;
      multiply(node, rows, row, node.firstGroup + from, count, out, rowBytes);
      if (node.isGated) {
        multiply(node, rows, row, node.upGroup + from, count, scratch, scratchBytes);
      }
      for (let i: u32 = 0; i < width >> halving; i++) {
        const ups = node.isGated ? scratch + i * scratchBytes : 0;
        const residual = node.residual ? node.residual + at + i * rowBytes : 0;
        complete(node, out + i * rowBytes, ups, residual, from, count);
      }
      row += width;
    }
  }
}

/** Applies the operations after the products of some groups. */
function complete(
  node: Product,
  out: usize,
  ups: usize,
  residual: usize,
  from: u32,
  count: u32,
): void {
  const scale = f32x4.splat(node.scale);
  const isScaled = node.scale !== 1;
  let bias = node.bias ? node.bias + <usize> (node.firstGroup + from) * 16 : 0;
  let upBias = node.bias ? node.bias + <usize> (node.upGroup + from) * 16 : 0;
  const isPlain = !bias && !ups && !residual && !isScaled && node.softcap === 0;
  if (isPlain && node.activation === 0) return;
  for (const end = out + <usize> count * 16; out < end; out += 16) {
    let x = v128.load(out);
    if (bias) x = f32x4.add(x, v128.load(bias));
    x = activate(node.activation, x);
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
    x = cap(x, node.softcap);
    if (residual) {
      x = f32x4.add(x, v128.load(residual));
      residual += 16;
    }
    v128.store(out, x);
  }
}
