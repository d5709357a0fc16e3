/**
 * Structures that the host writes into linear memory for attention and recurrences: 32-bit words in this order. All
 * addresses are in bytes. The counterparts are `../attention/attention_simd_memory.ts`,
 * `../attention/packed_attention_simd.ts` and `../states/states_simd.ts`.
 */

/** Number of keys stored side by side in the cache: four vectors of four. */
export const TILE: u32 = 16;

/** One attention layer; it does not change once it is written. */
@unmanaged
export class Node {
  heads: u32;
  /** Divides `heads`. */
  kvHeads: u32;
  /** Elements per head, a multiple of 4. */
  headSize: u32;
  /** Binary logarithm of the number of tokens per block, which is a power of two and at least `TILE`. */
  blockShift: u32;
  /** Bytes from one block of the cache to the next: the blocks of all layers in the memory lie side by side. */
  blockBytes: u32;
  /** Bytes of one token's key, or value, of one head: 1/`TILE` of a tile. */
  tokenBytes: u32;
  /** Whether keys and values are in 8 bits (1) or in f32 (0); see `kv_cache.ts`. */
  isQuantized: u32;

  /**
   * Address of f32 `[numTokens, stride]`, and the distances to the next token and to the first head, in elements.
   * Queries, keys and values may share one tensor.
   */
  q: usize;
  qStride: u32;
  qOffset: u32;
  k: usize;
  kStride: u32;
  kOffset: u32;
  v: usize;
  vStride: u32;
  vOffset: u32;

  /**
   * Address of the first block. Each block has `[kvHeads, block size / TILE]` tiles of f32 `[headSize, TILE]`, so one
   * element of all keys in a tile is four vectors.
   */
  kCache: usize;
  /** Address of the first block. Each block has `[kvHeads, block size / TILE]` tiles of f32 `[TILE, headSize]`. */
  vCache: usize;
  /** f32 `[numTokens, heads * headSize]`. */
  out: usize;

  /** Number of elements of a head that are rotated; 0 for none. */
  rotarySize: u32;
  /** Whether neighbouring elements are rotated together (1), or element `i` with `i + rotarySize / 2` (0). */
  isInterleaved: u32;
  /** f32 `[positions, rotarySize / 2]`. */
  cos: usize;
  sin: usize;

  /** Factor on the products of query and key, above 0. */
  scale: f32;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  softcap: f32;
  /** Number of keys that a query sees, including its own; 0 for all. */
  window: u32;
  /** f32 `[heads]`; 0 if there are none. */
  sinks: usize;
  /** f32 `[heads]`: slopes of a bias by distance (ALiBi); 0 if there are none. */
  slopes: usize;
}

/** The sequences of a step, packed along one axis of tokens. */
@unmanaged
export class Step {
  numSequences: u32;
  maxBlocksPerSequence: u32;
  /** i32 `[numTokens]`: position of each token in its own sequence. */
  positions: usize;
  /** i32 `[numSequences + 1]`. */
  queryStarts: usize;
  /** i32 `[numSequences, maxBlocksPerSequence]`. */
  blockTables: usize;
  /** i32 `[numTokens]`: row of each token in tables of angles. */
  anglePositions: usize;
}

/**
 * A part of the work: some rows of one sequence for some KV heads, where a row is a pair (query, head of the group).
 */
@unmanaged
export class Item {
  sequence: u32;
  firstRow: u32;
  /** Number of rows of each head. */
  numRows: u32;
  firstHead: u32;
  numHeads: u32;
}

/** Item `index` of a list. */
export function itemAt(items: usize, index: u32): Item {
  return changetype<Item>(items + <usize> index * offsetof<Item>());
}

/** Word `index` of an array. */
export function wordAt(array: usize, index: u32): u32 {
  return load<u32>(array + (<usize> index << 2));
}

/**
 * Offset in either cache of the tile that holds token `position` of the sequence with block table `table`, for one KV
 * head. The computation avoids divisions, which would cost as much as processing a tile of small heads.
 */
export function tileOffset(node: Node, table: usize, kvHead: u32, position: u32): usize {
  const block = wordAt(table, position >> node.blockShift);
  const token = position & ((1 << node.blockShift) - 1) & -TILE;
  return <usize> block * node.blockBytes +
    ((kvHead << node.blockShift) + token) * node.tokenBytes;
}

/** One attention layer. */
@unmanaged
export class PackedNode {
  heads: u32;
  /** Divides `heads`. */
  kvHeads: u32;
  /** Elements per head, a multiple of 4. */
  headSize: u32;

  /**
   * Address of f32 `[rows, stride]`, and the distances to the next row and to the first head, in elements. Queries,
   * keys and values may share one tensor.
   */
  q: usize;
  qStride: u32;
  qOffset: u32;
  k: usize;
  kStride: u32;
  kOffset: u32;
  v: usize;
  vStride: u32;
  vOffset: u32;
  /** f32 `[query rows, heads * headSize]`. */
  out: usize;

  /** Factor on the products of query and key, above 0. */
  scale: f32;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  softcap: f32;
  /** Number of keys that a query sees on either side of its own position; 0 for all. */
  window: u32;
}

/** The sequences of a batch. */
@unmanaged
export class PackedBatch {
  numSequences: u32;
  /** i32 `[numSequences + 1]`: first row of each sequence's queries, then the end. */
  queryStarts: usize;
  /** i32 `[numSequences]`: first row of each sequence's keys, and the number of keys. */
  keyStarts: usize;
  keyLengths: usize;
}

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
   * f32 `[slots, heads, valueStride * keyDim]`. Columns are stored in groups, each with all of its rows: groups of
   * sixteen columns, then groups of four.
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
  /** Whether the sequence's state is zero before its first row. */
  isFresh: u32;
  /** End of the rows after which the state goes to `savedSlot` too; 0 if it does not. */
  savedEnd: u32;
  savedSlot: u32;
}

/** Sequence `index` of a list. */
export function rangeAt(ranges: usize, index: u32): StateRange {
  return changetype<StateRange>(ranges + <usize> index * offsetof<StateRange>());
}
