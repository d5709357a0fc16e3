/**
 * The structure that the host writes into linear memory for `floatProduct`: words of 32 bits, in this order. All
 * addresses are in bytes. `../matmul/float_product.ts` is the other side.
 */

/** Outputs of a matrix that lie side by side. */
export const FLOAT_GROUP: u32 = 8;
/** Bytes of what a group has for one element of a row. */
export const FLOAT_GROUP_BYTES: usize = 32;

/** A matrix of f32, and what is done with its products. */
@unmanaged
export class FloatProduct {
  /** Elements of a row, a multiple of 4. */
  k: u32;
  /** Elements of one row of the output. */
  n: u32;
  /** Groups that are one part of the work. */
  partGroups: u32;
  /** f32 `[groups, k, FLOAT_GROUP]`: see `pack_floats.ts`. */
  weights: usize;
  /** The group whose products are activated, or all there are. */
  firstGroup: u32;
  /** Whether products of other groups are multiplied with those, and the first of them. */
  isGated: u32;
  upGroup: u32;
  /** `ACTIVATIONS` of `activation.ts`. */
  activation: u32;
  /** f32 `[outputs of the matrix]`; 0 for none. */
  bias: usize;
  /** f32 `[rows, n]`; 0 for none. */
  residual: usize;
  /** f32 `[rows, n]`. */
  out: usize;
  scale: f32;
  /** `c` in `c * tanh(product / c)`; 0 for none. */
  softcap: f32;
}

/** Rows to multiply with. */
@unmanaged
export class FloatRows {
  numRows: u32;
  /** f32, `stride` bytes from one row to the next. */
  x: usize;
  stride: usize;
}
