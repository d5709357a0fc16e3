/**
 * The structures that the host writes into linear memory for `expertsProduct`: 32-bit words in this order. All
 * addresses are in bytes. `../experts/experts_simd.ts` is the counterpart.
 */

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
  /** One of the constants above. */
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
  /** f32 `[experts, outputs, k / 32]`, or `k / 16` with half chunks. */
  scales: usize;
  /** u8, as many as scales; 0 if there are none. */
  zeros: usize;
  /** f32 `[experts, outputs]`; 0 if there is none. */
  bias: usize;
  /** Index in `ACTIVATIONS` of `activation.ts`; SiLU uses `alpha`. */
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
