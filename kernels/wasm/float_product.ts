/**
 * Products of few rows with an f32 matrix, and the operations after them:
 *
 * `out[row, n] = cap(scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias))) + residual[row,
 * n]`
 *
 * Elements are added in order, with fused multiply-add if the processor has it, whatever the number of rows.
 */
import { activate, cap } from "./activation";
import { multiplyFloats } from "./float_multiply";
import { FLOAT_GROUP, FLOAT_GROUP_BYTES, FloatProduct, FloatRows } from "./product_layout";

/** Does the parts `[first, end)` of the work. */
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
      complete(
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

/** Computes products with some outputs, the last of which may fill only a part of a group. */
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
function complete(
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
