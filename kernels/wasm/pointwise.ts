/** Sums and products of the elements of rows. */
import { activate } from "./activation";

/**
 * `out = scale * (activate(a) ∘ b)` for one row.
 *
 * @param operation 0 for none, 1 for a sum, 2 for a product.
 * @param out may be `a` or `b`.
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
  const whole = a + <usize> (width & ~3) * 4;
  for (; a < whole; a += 16, b += 16, out += 16) {
    const y = v128.load(b);
    v128.store(out, joined(v128.load(a), y, operation, activation, scale));
  }
  for (const end = whole + <usize> (width & 3) * 4; a < end; a += 4, b += 4, out += 4) {
    const y = v128.load32_splat(b);
    v128.store_lane<f32>(out, joined(v128.load32_splat(a), y, operation, activation, scale), 0);
  }
}

@inline
function joined(a: v128, b: v128, operation: u32, activation: u32, scale: f32): v128 {
  let x = activate(activation, a);
  if (operation === 1) x = f32x4.add(x, b);
  else if (operation === 2) x = f32x4.mul(x, b);
  return f32x4.mul(x, f32x4.splat(scale));
}
