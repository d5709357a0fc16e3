/**
 * Structures that the host writes into linear memory for recurrences: 32-bit words in this order. All addresses are in
 * bytes. `../states/states_simd.ts` is the counterpart.
 */

/** A depthwise causal convolution. */
@unmanaged
export class ConvNode {
  channels: u32;
  /** Number of elements from one row of weights or of a state to the next: a multiple of 4. */
  stride: u32;
  taps: u32;
  isSilu: u32;
  /** Number of channels in one part of the work: a multiple of 4. */
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
  /** Number of heads of values and of states. */
  heads: u32;
  /** Numbers of heads of queries and of keys; both divide `heads`. */
  queryHeads: u32;
  keyHeads: u32;
  keyDim: u32;
  valueDim: u32;
  /** Number of columns in a state: a multiple of 4. */
  valueStride: u32;
  scale: f32;
  /** Whether states decay, and whether each row of a state has a factor of its own. */
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
   * f32 `[slots, heads, valueStride * keyDim]`: all rows of each sixteen columns, then of each four of the remaining
   * columns.
   */
  state: usize;
  /** f32 `[rows, heads, valueDim]`. */
  out: usize;
}

/** The rows of one sequence. */
@unmanaged
export class StateRange {
  first: u32;
  end: u32;
  slot: u32;
  /** Whether its state is zero before the first row. */
  isFresh: u32;
  /** End of the rows after which the state goes to `savedSlot` too; 0 if it does not. */
  savedEnd: u32;
  savedSlot: u32;
}

/** Sequence `index` of a list. */
export function rangeAt(ranges: usize, index: u32): StateRange {
  return changetype<StateRange>(ranges + <usize> index * offsetof<StateRange>());
}
