/**
 * Structures that the host writes into linear memory for products: 32-bit words in this order. All addresses are in
 * bytes. The counterparts are `../matmul/row_products.ts` and `../experts/experts_memory.ts`.
 */

/** Number of a matrix's outputs that lie side by side. */
export const GROUP: u32 = 4;
/** Number of weights, and of elements of a row, that share a scale. */
export const BLOCK: u32 = 32;
/** Bytes of a group's block: 4-bit levels, and four scales. */
export const BLOCK_BYTES: usize = 80;
/** Bytes of a group's block with zero points. They follow the scales as bytes, each zero point twice. */
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
  /** Address of the matrix's groups, with `BLOCK_BYTES` or `ZEROS_BLOCK_BYTES` per block; see `pack.ts`. */
  weights: usize;
  /** The first group to multiply; if gated, the first group whose products are activated. */
  firstGroup: u32;
  /** Whether the activated products are multiplied with the products of other groups. */
  isGated: u32;
  /** The first of the other groups. */
  upGroup: u32;
  /** Index in `ACTIVATIONS` of `../common/activation.ts`. */
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

/** The quantised rows to multiply; see `pack.ts`. */
@unmanaged
export class QuantizedRows {
  /** Number of quantised rows: twice the number of rows if each row is a pair. */
  numRows: u32;
  /**
   * Rows in tiles of four, two and one; see `tileWidth`. A block of a tile begins with four pairs of words, each of
   * even and of odd elements. The scales (f32) follow, and then the negated sum that a level of 8 in all weights would
   * give: an i16 for the first two elements of all words, and one for the others. Within each of these parts, rows
   * follow one another.
   */
  tiles: usize;
  /**
   * The value 15, a mask for the lower half of a byte. It is not a constant, because V8 would create the constant again
   * at each use.
   */
  levelMask: u32;
  /** Whether the sums of a block are kept in i16; see `block_sums.ts`. */
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
  /** f32 `[groups, k, FLOAT_GROUP]`: see `pack.ts`. */
  weights: usize;
  /** The first group to multiply; if gated, the first group whose products are activated. */
  firstGroup: u32;
  /** Whether the activated products are multiplied with the products of other groups. */
  isGated: u32;
  /** The first of the other groups. */
  upGroup: u32;
  /** Index in `ACTIVATIONS` of `../common/activation.ts`. */
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

/** How weights are stored. */
export const BITS4: u32 = 0;
export const BITS8: u32 = 1;
export const FLOATS: u32 = 2;
export const HALVES: u32 = 3;

/** Number of elements of a row that are rounded together. */
export const CHUNK: u32 = 32;
/** Bytes of a chunk of a rounded row; see `quantizeShorts`. */
export const CHUNK_BYTES: usize = 96;

/** One product of a layer's experts. */
@unmanaged
export class ExpertsProduct {
  /** How weights are stored: `BITS4`, `BITS8`, `FLOATS` or `HALVES`. */
  kind: u32;
  /** Number of elements in a row, a multiple of 32. */
  k: u32;
  /** Whether 16 weights share a scale, rather than 32. */
  hasHalves: u32;
  /** Number of rows in an expert's matrix. */
  outputs: u32;
  /** Number of outputs per pair. */
  count: u32;
  /** Output `i` is computed from the matrix rows `i * step + gate` and, if gated, `i * step + up`. */
  step: u32;
  gate: u32;
  up: u32;
  isGated: u32;
  /** Number of outputs in one part of the work. */
  partOutputs: u32;
  weights: usize;
  /** f32 `[experts, outputs, k / 32]`, or `[experts, outputs, k / 16]` with `hasHalves`. */
  scales: usize;
  /** u8, as many as scales; 0 if there are none. */
  zeros: usize;
  /** f32 `[experts, outputs]`; 0 if there is none. */
  bias: usize;
  /** Index in `ACTIVATIONS` of `../common/activation.ts`; SiLU uses `alpha`. */
  activation: u32;
  alpha: f32;
  beta: f32;
  limit: f32;
  /** Address of the rows, rounded or f32, and bytes from one to the next. */
  x: usize;
  xBytes: usize;
  /** f32 `[pairs, count]`. */
  out: usize;
}

/** The pairs (row, one of its experts) of a step. */
@unmanaged
export class ExpertPairs {
  /** u32: the pairs, sorted by expert. */
  pairs: usize;
  /** Number of pairs per row of `x`. */
  perRow: u32;
}

/** The pairs of one expert. */
@unmanaged
export class ExpertItem {
  expert: u32;
  /** Index into `pairs`. */
  first: u32;
  end: u32;
}
