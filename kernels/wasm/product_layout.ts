/**
 * The structure that the host writes into linear memory for `product`: 32-bit words in this order. All addresses are in
 * bytes. `../matmul/nbits_product.ts` is the counterpart.
 */

/** Number of a matrix's outputs that lie side by side. */
export const GROUP: u32 = 4;
/** Number of weights that share a scale, and of elements of a row that do. */
export const BLOCK: u32 = 32;
/** Bytes of a group's block: 4-bit levels, and four scales. */
export const BLOCK_BYTES: usize = 80;
/** Bytes with zero points after the scales, each twice in a byte. */
export const ZEROS_BLOCK_BYTES: usize = 88;

/** A matrix of 4-bit blocks, and the operations on its products. */
@unmanaged
export class Product {
  /** Number of blocks in a row. */
  blocks: u32;
  /** Number of groups in a row of the output. */
  numGroups: u32;
  /** Number of groups in one part of the work. */
  partGroups: u32;
  /** Address of the matrix's groups, with `BLOCK_BYTES` or `ZEROS_BLOCK_BYTES` per block; see `pack_blocks.ts`. */
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
  /** f32 `[rows, n]`, where `n` is four times the number of groups; 0 if there is none. */
  residual: usize;
  /** f32 `[rows, n]`. */
  out: usize;
  scale: f32;
  /** `c` in `c * tanh(product / c)`; 0 for none. */
  softcap: f32;
  /** Whether blocks have zero points; if not, the zero point is 8. */
  hasZeros: u32;
  /** Whether a row is the sum of two quantised rows; see `quantizePair`. */
  isPaired: u32;
}

/** The quantised rows to multiply; see `quantize.ts`. */
@unmanaged
export class QuantizedRows {
  /** Number of quantised rows: twice the number of rows if these are pairs. */
  numRows: u32;
  /**
   * Rows in tiles of four, two and one; see `tileWidth`. A block of a tile has, four times, a word of even and a word
   * of odd elements; then the scales (f32); then what the level 8 in all weights would add, negated: an i16 for the
   * first two elements of all words, and one for the others. Within each of these parts, rows follow one another.
   */
  tiles: usize;
  /** The value 15, the lower half of a byte. As a constant, V8 would create it again at each use. */
  levelMask: u32;
  /** Whether the sums of a block are kept in i16; see `multiply.ts`. */
  sumsInShorts: u32;
}

/** Bytes of one row's block in a tile. */
export const ROW_BLOCK_BYTES: usize = 40;

/** First row of the tile that contains row `row`: rows are divided into fours, then twos, then ones. */
@inline
export function tileStart(numRows: u32, row: u32): u32 {
  return row < (numRows & ~3) ? row & ~3 : row & ~1;
}

/** Number of rows in the tile that contains row `row`. */
@inline
export function tileWidth(numRows: u32, row: u32): u32 {
  return row < (numRows & ~3) ? 4 : row < (numRows & ~1) ? 2 : 1;
}
