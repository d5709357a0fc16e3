/** Sums and products of the elements of rows. */
import { activate } from "./activation";

/**
 * `out = scale * (activate(a) ∘ b)`, for one row.
 *
 * @param width a multiple of 4; `operation` is 0 for none, 1 for a sum, 2 for a product. `out` may be `a` or `b`.
 */
export function pointwiseRow(
  a: usize,
  b: usize,
  width: u32,
  operation: u32,
  activation: u32,
  scale: f32,
  out: usize,
): void {
  const factor = f32x4.splat(scale);
  for (const end = a + <usize> width * 4; a < end; a += 16, b += 16, out += 16) {
    let x = activate(activation, v128.load(a));
    if (operation === 1) x = f32x4.add(x, v128.load(b));
    else if (operation === 2) x = f32x4.mul(x, v128.load(b));
    v128.store(out, f32x4.mul(x, factor));
  }
}
