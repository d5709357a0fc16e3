/**
 * Structures that the host writes into linear memory for `packedAttention`: 32-bit words in this order. All addresses
 * are in bytes. `../attention/packed_attention_simd.ts` is the counterpart.
 */

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
  /** Number of keys that a query sees on either side of its own; 0 for all. */
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
