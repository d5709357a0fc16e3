/**
 * Products of few rows with a matrix, and the operations after them:
 *
 * `out[row, n] = cap(scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias))) + residual[row,
 * n]`
 *
 * `product` takes 4-bit weights in blocks: products within a block are summed as integers, and blocks are added in f32,
 * in order. `floatProduct` takes weights in f32: elements are added in order, with fused multiply-add if the processor
 * has it, whatever the number of rows.
 */
import { No, Yes } from "./block_sums";
import { multiplyFloats } from "./float_multiply";
import { multiplyFour, multiplyOne, multiplyTwo } from "./multiply";
import {
  FLOAT_GROUP,
  FLOAT_GROUP_BYTES,
  FloatProduct,
  FloatRows,
  GROUP,
  Product,
  QuantizedRows,
  ROW_BLOCK_BYTES,
  tileWidth,
} from "./product_layout";
import { activate, cap } from "./vectors";

/** Computes the parts `[first, end)` of the work. */
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
      multiplyGroups(node, rows, row, node.firstGroup + from, count, out, rowBytes);
      if (node.isGated) {
        multiplyGroups(node, rows, row, node.upGroup + from, count, scratch, scratchBytes);
      }
      for (let i: u32 = 0; i < width >> halving; i++) {
        const ups = node.isGated ? scratch + i * scratchBytes : 0;
        const residual = node.residual ? node.residual + at + i * rowBytes : 0;
        completeGroups(node, out + i * rowBytes, ups, residual, from, count);
      }
      row += width;
    }
  }
}

/**
 * Multiplies the rows of the tile that begins with `row` with `count` groups, and stores the results `rowBytes` apart.
 */
function multiplyGroups(
  node: Product,
  rows: QuantizedRows,
  row: u32,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
): void {
  const mask = i8x16.splat(<i8> rows.levelMask);
  const tile = rows.tiles + <usize> (row * node.blocks) * ROW_BLOCK_BYTES;
  const width = tileWidth(rows.numRows, row);
  if (rows.sumsInShorts) multiplyTile<i16>(node, tile, width, first, count, out, rowBytes, mask);
  else multiplyTile<i32>(node, tile, width, first, count, out, rowBytes, mask);
}

@inline
function multiplyTile<Sum>(
  node: Product,
  tile: usize,
  width: u32,
  first: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  mask: v128,
): void {
  if (width === 1) {
    if (node.hasZeros) multiplyOne<Sum, Yes>(node, tile, first, count, out, mask);
    else multiplyOne<Sum, No>(node, tile, first, count, out, mask);
  } else if (width === 2) {
    if (node.isPaired) {
      if (node.hasZeros) multiplyTwo<Sum, Yes, Yes>(node, tile, first, count, out, rowBytes, mask);
      else multiplyTwo<Sum, No, Yes>(node, tile, first, count, out, rowBytes, mask);
    } else {
      if (node.hasZeros) multiplyTwo<Sum, Yes, No>(node, tile, first, count, out, rowBytes, mask);
      else multiplyTwo<Sum, No, No>(node, tile, first, count, out, rowBytes, mask);
    }
  } else {
    if (node.isPaired) {
      if (node.hasZeros) multiplyFour<Sum, Yes, Yes>(node, tile, first, count, out, rowBytes, mask);
      else multiplyFour<Sum, No, Yes>(node, tile, first, count, out, rowBytes, mask);
    } else {
      if (node.hasZeros) multiplyFour<Sum, Yes, No>(node, tile, first, count, out, rowBytes, mask);
      else multiplyFour<Sum, No, No>(node, tile, first, count, out, rowBytes, mask);
    }
  }
}

/** Applies the operations after the products of some groups. */
function completeGroups(
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

/** Computes the parts `[first, end)` of the work. */
export function floatProduct(
  node: FloatProduct,
  rows: FloatRows,
  _items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const rowBytes = <usize> node.n * 4;
  for (let part = first; part < end; part++) {
    const from = part * node.partGroups;
    const count = min(node.partGroups * FLOAT_GROUP, node.n - from * FLOAT_GROUP);
    const partBytes = <usize> node.partGroups * FLOAT_GROUP_BYTES;
    const at = <usize> from * FLOAT_GROUP_BYTES;
    multiplyOutputs(node, rows, node.firstGroup + from, count, node.out + at, rowBytes, scratch);
    const ups = scratch + <usize> rows.numRows * FLOAT_GROUP_BYTES;
    if (node.isGated) {
      multiplyOutputs(node, rows, node.upGroup + from, count, ups, partBytes, scratch);
    }
    for (let row: usize = 0; row < rows.numRows; row++) {
      completeOutputs(
        node,
        node.out + at + row * rowBytes,
        node.isGated ? ups + row * partBytes : 0,
        node.residual ? node.residual + at + row * rowBytes : 0,
        from,
        count,
      );
    }
  }
}

/** Computes products with some outputs; the last ones may fill only a part of a group. */
function multiplyOutputs(
  node: FloatProduct,
  rows: FloatRows,
  group: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  scratch: usize,
): void {
  const whole = count / FLOAT_GROUP;
  if (whole) multiplyFloats(node, rows, group, whole, out, rowBytes);
  const rest = <usize> (count % FLOAT_GROUP) * 4;
  if (!rest) return;
  multiplyFloats(node, rows, group + whole, 1, scratch, FLOAT_GROUP_BYTES);
  const to = out + <usize> whole * FLOAT_GROUP_BYTES;
  for (let row: usize = 0; row < rows.numRows; row++) {
    memory.copy(to + row * rowBytes, scratch + row * FLOAT_GROUP_BYTES, rest);
  }
}

/** Applies the operations after the products of some outputs. */
function completeOutputs(
  node: FloatProduct,
  out: usize,
  ups: usize,
  residual: usize,
  from: u32,
  count: u32,
): void {
  const isPlain = !node.bias && !ups && !residual && node.scale === 1 && node.softcap === 0 &&
    node.activation === 0;
  if (isPlain) return;
  const first = <usize> (node.firstGroup + from) * FLOAT_GROUP_BYTES;
  const up = <usize> (node.upGroup + from) * FLOAT_GROUP_BYTES;
  const bias = node.bias ? node.bias + first : 0;
  const upBias = node.bias ? node.bias + up : 0;
  const whole = <usize> (count & ~3) * 4;
  for (let at: usize = 0; at < whole; at += 16) {
    const y = completed(
      node,
      v128.load(out + at),
      bias ? v128.load(bias + at) : f32x4.splat(0),
      ups ? v128.load(ups + at) : f32x4.splat(0),
      ups && bias ? v128.load(upBias + at) : f32x4.splat(0),
      residual ? v128.load(residual + at) : f32x4.splat(0),
    );
    v128.store(out + at, y);
  }
  for (let at = whole; at < <usize> count * 4; at += 4) {
    const y = completed(
      node,
      v128.load32_splat(out + at),
      bias ? v128.load32_splat(bias + at) : f32x4.splat(0),
      ups ? v128.load32_splat(ups + at) : f32x4.splat(0),
      ups && bias ? v128.load32_splat(upBias + at) : f32x4.splat(0),
      residual ? v128.load32_splat(residual + at) : f32x4.splat(0),
    );
    v128.store_lane<f32>(out + at, y, 0);
  }
}

@inline
function completed(
  node: FloatProduct,
  product: v128,
  bias: v128,
  up: v128,
  upBias: v128,
  residual: v128,
): v128 {
  let y = activate(node.activation, f32x4.add(product, bias));
  if (node.isGated) y = f32x4.mul(y, f32x4.add(up, upBias));
  return f32x4.add(cap(f32x4.mul(y, f32x4.splat(node.scale)), node.softcap), residual);
}
