/**
 * Products of a few rows with a matrix of f32, and what follows them:
 *
 * `out[row, n] = cap(scale * activate(W[first + n] · x[row] + bias) (* (W[up + n] · x[row] + bias))) + residual[row, n]`
 *
 * Elements are added in their order, each rounded once where the processor can, however many rows there are.
 */
import { activate, cap } from "./activation";
import { multiplyFloats } from "./float_multiply";
import { FLOAT_GROUP, FLOAT_GROUP_BYTES, FloatProduct, FloatRows } from "./float_product_layout";

/** Does the parts `[first, end)` of the work. */
export function floatProduct(
  site: FloatProduct,
  rows: FloatRows,
  _items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const rowBytes = <usize> site.n * 4;
  for (let part = first; part < end; part++) {
    const from = part * site.partGroups;
    const count = min(site.partGroups * FLOAT_GROUP, site.n - from * FLOAT_GROUP);
    const partBytes = <usize> site.partGroups * FLOAT_GROUP_BYTES;
    const at = <usize> from * FLOAT_GROUP_BYTES;
    multiplyOutputs(site, rows, site.firstGroup + from, count, site.out + at, rowBytes, scratch);
    const ups = scratch + <usize> rows.numRows * FLOAT_GROUP_BYTES;
    if (site.isGated) {
      multiplyOutputs(site, rows, site.upGroup + from, count, ups, partBytes, scratch);
    }
    for (let row: usize = 0; row < rows.numRows; row++) {
      complete(
        site,
        site.out + at + row * rowBytes,
        site.isGated ? ups + row * partBytes : 0,
        site.residual ? site.residual + at + row * rowBytes : 0,
        from,
        count,
      );
    }
  }
}

/** Products with some outputs, the last of which may be part of a group. */
function multiplyOutputs(
  site: FloatProduct,
  rows: FloatRows,
  group: u32,
  count: u32,
  out: usize,
  rowBytes: usize,
  scratch: usize,
): void {
  const whole = count / FLOAT_GROUP;
  if (whole) multiplyFloats(site, rows, group, whole, out, rowBytes);
  const rest = <usize> (count % FLOAT_GROUP) * 4;
  if (!rest) return;
  multiplyFloats(site, rows, group + whole, 1, scratch, FLOAT_GROUP_BYTES);
  const to = out + <usize> whole * FLOAT_GROUP_BYTES;
  for (let row: usize = 0; row < rows.numRows; row++) {
    memory.copy(to + row * rowBytes, scratch + row * FLOAT_GROUP_BYTES, rest);
  }
}

/** What follows the products of some outputs. */
function complete(
  site: FloatProduct,
  out: usize,
  ups: usize,
  residual: usize,
  from: u32,
  count: u32,
): void {
  const isPlain = !site.bias && !ups && !residual && site.scale === 1 && site.softcap === 0 &&
    site.activation === 0;
  if (isPlain) return;
  const first = <usize> (site.firstGroup + from) * FLOAT_GROUP_BYTES;
  const up = <usize> (site.upGroup + from) * FLOAT_GROUP_BYTES;
  const bias = site.bias ? site.bias + first : 0;
  const upBias = site.bias ? site.bias + up : 0;
  const whole = <usize> (count & ~3) * 4;
  for (let at: usize = 0; at < whole; at += 16) {
    const y = completed(
      site,
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
      site,
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
  site: FloatProduct,
  product: v128,
  bias: v128,
  up: v128,
  upBias: v128,
  residual: v128,
): v128 {
  let y = activate(site.activation, f32x4.add(product, bias));
  if (site.isGated) y = f32x4.mul(y, f32x4.add(up, upBias));
  return f32x4.add(cap(f32x4.mul(y, f32x4.splat(site.scale)), site.softcap), residual);
}
