/**
 * The structure that the host writes into linear memory for `product`: words of 32 bits, in this order. All addresses
 * are in bytes. `../product_simd.ts` is the other side.
 */

/** Outputs of a matrix that lie side by side. */
export const GROUP: u32 = 4;
/** Weights that share a scale, and elements of a row that share one. */
export const BLOCK: u32 = 32;
/** Bytes of a block of a group: levels of four bits, and four scales. */
export const BLOCK_BYTES: usize = 80;

/** A matrix of blocks of 4 bits, and what is done with its products. */
@unmanaged
export class Product {
  /** Blocks in a row. */
  blocks: u32;
  /** Of one row of the output. */
  numGroups: u32;
  /** Groups that are one part of the work. */
  partGroups: u32;
  /** Groups of the matrix, `BLOCK_BYTES` for each block: see `pack_blocks.ts`. */
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
  /** f32 `[rows, n]`, `n` being four times the groups; 0 for none. */
  residual: usize;
  /** f32 `[rows, n]`. */
  out: usize;
  scale: f32;
}

/** Rows to multiply with, quantised: see `quantize.ts`. */
@unmanaged
export class QuantizedRows {
  numRows: u32;
  /** i8 `[rows, blocks, BLOCK]`: elements 0, 2, 4 … of each block before 1, 3, 5 …. */
  levels: usize;
  /** f32 `[rows, blocks]`. */
  scales: usize;
  /** i32 `[rows, blocks]`: what the level 8 of all weights would add, negated. */
  offsets: usize;
}
