/**
 * Structures that the host writes into linear memory for recurrences: words of 32 bits, in this order. All addresses are
 * in bytes. `../states/states_simd.ts` is the other side.
 */

/** A depthwise causal convolution. */
@unmanaged
export class ConvNode {
  channels: u32;
  /** Elements from one row of weights or of a state to the next: a multiple of 4. */
  stride: u32;
  taps: u32;
  isSilu: u32;
  /** Channels that are one part of the work: a multiple of 4. */
  partChannels: u32;
  /** f32 `[rows, stride]`. */
  x: usize;
  /** f32 `[taps + 1, stride]`: weights, then biases. */
  factors: usize;
  /** f32 `[slots, taps - 1, stride]`: the last inputs, the oldest first. */
  state: usize;
  /** f32 `[rows, channels]`. */
  out: usize;
}

/** A linear attention. */
@unmanaged
export class LinearNode {
  /** Of values and of states. */
  heads: u32;
  /** Divide `heads`. */
  queryHeads: u32;
  keyHeads: u32;
  keyDim: u32;
  valueDim: u32;
  /** Columns of a state: a multiple of 4. */
  valueStride: u32;
  scale: f32;
  /** Whether states decay, and each row of a state by a factor of its own. */
  hasDecays: u32;
  decaysRows: u32;
  /** Rates of a token for the delta rule: 1, or one for each head; 0 without the rule. */
  rates: u32;
  /** f32 `[rows, queryHeads, keyDim]`. */
  q: usize;
  /** f32 `[rows, keyHeads, keyDim]`. */
  k: usize;
  /** f32 `[rows, heads, valueDim]`. */
  v: usize;
  /** Factors, f32 `[rows, heads]` or `[rows, heads, keyDim]`. */
  decays: usize;
  /** f32 `[rows, rates]`. */
  betas: usize;
  /**
   * f32 `[slots, heads, valueStride * keyDim]`: of each sixteen columns all rows, then of each four that are left over.
   */
  state: usize;
  /** f32 `[rows, heads, valueDim]`. */
  out: usize;
}

/** One sequence's rows. */
@unmanaged
export class StateRange {
  first: u32;
  end: u32;
  slot: u32;
  /** Whether its state is all zeros before the first row. */
  isFresh: u32;
}

/** Sequence `index` of a list. */
export function rangeAt(ranges: usize, index: u32): StateRange {
  return changetype<StateRange>(ranges + <usize> index * offsetof<StateRange>());
}
