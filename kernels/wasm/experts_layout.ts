/**
 * The structures that the host writes into linear memory for `expertsProduct`: words of 32 bits, in this order. All
 * addresses are in bytes. `../experts/experts_simd.ts` is the other side.
 */

/** How weights are stored. */
export const BITS4: u32 = 0;
export const BITS8: u32 = 1;
export const FLOATS: u32 = 2;
export const HALVES: u32 = 3;

/** Elements of a row that are rounded together. */
export const CHUNK: u32 = 32;
/** Bytes of a chunk of a rounded row: see `quantizeShorts`. */
export const CHUNK_BYTES: usize = 96;

/** A product of the experts of a layer. */
@unmanaged
export class ExpertsProduct {
  /** One of the constants above. */
  kind: u32;
  /** Elements of a row, a multiple of 32. */
  k: u32;
  /** Whether 16 weights share a scale, and not 32. */
  hasHalves: u32;
  /** Rows of an expert's matrix. */
  outputs: u32;
  /** Outputs of a pair. */
  count: u32;
  /** Output `i` is made of the matrix's rows `i * step + gate` and, gated, `i * step + up`. */
  step: u32;
  gate: u32;
  up: u32;
  isGated: u32;
  /** Outputs that are one part of the work. */
  partOutputs: u32;
  weights: usize;
  /** f32 `[experts, outputs, k / 32]`, or `k / 16` in halves. */
  scales: usize;
  /** u8, as many; 0 for none. */
  zeros: usize;
  /** f32 `[experts, outputs]`; 0 for none. */
  bias: usize;
  /** `ACTIVATIONS` of `activation.ts`, SiLU with `alpha`. */
  activation: u32;
  alpha: f32;
  beta: f32;
  limit: f32;
  /** Rows, rounded or f32, and bytes from one to the next. */
  x: usize;
  xBytes: usize;
  /** f32 `[pairs, count]`. */
  out: usize;
}

/** The pairs (row, one of its experts) of a step. */
@unmanaged
export class ExpertPairs {
  /** u32: the pairs, those of an expert side by side. */
  pairs: usize;
  /** Pairs of a row of `x`. */
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
