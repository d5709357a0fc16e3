/**
 * The structure that the host writes into linear memory for `floatProduct`: 32-bit words in this order. All addresses
 * are in bytes. `../matmul/float_product.ts` is the counterpart.
 */

/** Number of a matrix's outputs that lie side by side. */
export const FLOAT_GROUP: u32 = 8;
/** Bytes of a group's weights for one element of a row. */
export const FLOAT_GROUP_BYTES: usize = 32;

/** An f32 matrix, and the operations on its products. */
@unmanaged
export class FloatProduct {
  /** Number of elements in a row, a multiple of 4. */
  k: u32;
  /** Number of elements in a row of the output. */
  n: u32;
  /** Number of groups in one part of the work. */
  partGroups: u32;
  /** f32 `[groups, k, FLOAT_GROUP]`: see `pack_floats.ts`. */
  weights: usize;
  /** The group of the activated products, or of all products. */
  firstGroup: u32;
  /** Whether these are multiplied with the products of other groups, and the first of those. */
  isGated: u32;
  upGroup: u32;
  /** Index in `ACTIVATIONS` of `activation.ts`. */
  activation: u32;
  /** f32 `[outputs of the matrix]`; 0 if there is none. */
  bias: usize;
  /** f32 `[rows, n]`; 0 if there is none. */
  residual: usize;
  /** f32 `[rows, n]`. */
  out: usize;
  scale: f32;
  /** `c` in `c * tanh(product / c)`; 0 for none. */
  softcap: f32;
}

/** The rows to multiply. */
@unmanaged
export class FloatRows {
  numRows: u32;
  /** f32; rows are `stride` bytes apart. */
  x: usize;
  stride: usize;
}
