/**
 * The structure that the host writes into linear memory for `product`: words of 32 bits, in this order. All addresses
 * are in bytes. `../matmul/nbits_product.ts` is the other side.
 */

/** Outputs of a matrix that lie side by side. */
export const GROUP: u32 = 4;
/** Weights that share a scale, and elements of a row that share one. */
export const BLOCK: u32 = 32;
/** Bytes of a block of a group: levels of four bits, and four scales. */
export const BLOCK_BYTES: usize = 80;
/** With zero points after them, each twice in a byte. */
export const ZEROS_BLOCK_BYTES: usize = 88;

/** A matrix of blocks of 4 bits, and what is done with its products. */
@unmanaged
export class Product {
  /** Blocks in a row. */
  blocks: u32;
  /** Groups of one row of the output. */
  numGroups: u32;
  /** Groups that are one part of the work. */
  partGroups: u32;
  /** Groups of the matrix, `BLOCK_BYTES` for each block, or `ZEROS_BLOCK_BYTES`: see `pack_blocks.ts`. */
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
  /** `c` in `c * tanh(product / c)`; 0 for none. */
  softcap: f32;
  /** Whether blocks have zero points; 8 if not. */
  hasZeros: u32;
  /** Whether a row is the sum of two quantised ones: see `quantizePair`. */
  isPaired: u32;
}

/** Rows to multiply with, quantised: see `quantize.ts`. */
@unmanaged
export class QuantizedRows {
  /** Quantised ones: twice as many as there are rows where these are pairs. */
  numRows: u32;
  /**
   * Rows in tiles of four, two and one: see `tileWidth`. A block of a tile is four times a word of even and one of odd
   * elements, then the scales (f32), then what the level 8 of all weights would add, negated: an i16 for the first two
   * elements of all words and one for the others. Each of a row stands before that of the next.
   */
  tiles: usize;
  /** 15, the lower half of a byte: V8 would make a constant anew wherever it is used. */
  levelMask: u32;
  /** Whether sums of a block are kept in i16: see `multiply.ts`. */
  sumsInShorts: u32;
}

/** Bytes of a block of one row in a tile. */
export const ROW_BLOCK_BYTES: usize = 40;

/** First row of the tile that has row `row`: rows are taken by fours, then two, then one. */
@inline
export function tileStart(numRows: u32, row: u32): u32 {
  return row < (numRows & ~3) ? row & ~3 : row & ~1;
}

/** Rows of the tile that has row `row`. */
@inline
export function tileWidth(numRows: u32, row: u32): u32 {
  return row < (numRows & ~3) ? 4 : row < (numRows & ~1) ? 2 : 1;
}
