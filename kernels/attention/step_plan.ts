/**
 * Plans a packed step for the kernels: one array of words, computed on the host once for all layers.
 *
 * @module
 */
import type { AttentionShape, AttentionTiling } from "./attention_shape.ts";
import { decodeKeys } from "./attention_source.ts";

/** The sequences of a step, such as a `StepBatch` of the decoder. */
export interface PackedStep {
  /**
   * Ids or objects. An object's `isDecoding`, if present, says whether the sequence's token was generated rather than
   * part of a prompt.
   */
  readonly sequences: ArrayLike<object | number>;
  readonly numTokens: number;
  /** i32 `[numTokens]`: position of each token in its own sequence. */
  readonly positions: Int32Array;
  /** i32 `[numTokens]`: row of each token in tables of angles; the token's position if absent. */
  readonly anglePositions?: Int32Array | undefined;
  /** i32 `[sequences + 1]`. */
  readonly queryStarts: Int32Array;
  /** i32 `[sequences]`: number of keys of each sequence, including those of this step. */
  readonly kvLengths: Int32Array;
  /** i32 `[sequences, maxBlocksPerSequence]`. */
  readonly blockTables: Int32Array;
  /** Block tables of the pools for layers with a window, by pool. */
  readonly windowTables?: readonly Int32Array[] | undefined;
  readonly maxBlocksPerSequence: number;
}

/**
 * Returns a step with the block tables of one pool. Pool 0 is the main pool; the others are for layers with a window.
 */
export function stepInPool(step: PackedStep, pool: number): PackedStep {
  return pool === 0 ? step : { ...step, blockTables: step.windowTables![pool - 1]! };
}

/** Returns the part of a step with the tokens `[first, end)`. The tokens before `first` must have run already. */
export function sliceStep(step: PackedStep, first: number, end: number): PackedStep {
  const { queryStarts, kvLengths, maxBlocksPerSequence } = step;
  const numSequences = step.sequences.length;
  const owned = Array.from({ length: numSequences }, (_, s) => s)
    .filter((s) => queryStarts[s]! < end && queryStarts[s + 1]! > first);
  const [from, to] = [owned[0]!, owned.at(-1)! + 1];
  const clip = (token: number) => Math.min(Math.max(token, first), end) - first;
  const sliceTables = (tables: Int32Array) =>
    tables.subarray(from * maxBlocksPerSequence, to * maxBlocksPerSequence);
  return {
    sequences: Array.from({ length: to - from }, (_, i) => step.sequences[from + i]!),
    numTokens: end - first,
    positions: step.positions.subarray(first, end),
    anglePositions: step.anglePositions?.subarray(first, end),
    queryStarts: queryStarts.subarray(from, to + 1).map(clip),
    kvLengths: kvLengths.subarray(from, to).map((length, i) =>
      length - Math.max(0, queryStarts[from + i + 1]! - end)
    ),
    blockTables: sliceTables(step.blockTables),
    windowTables: step.windowTables?.map(sliceTables),
    maxBlocksPerSequence,
  };
}

/** Limits for a step. */
export interface StepLimits {
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxBlocksPerSequence: number;
  /** Number of keys that a query sees, including its own; all if 0 or absent. */
  readonly window?: number | undefined;
}

/**
 * Number of words at the beginning: offsets of the rows of angles, the slots, and the prefill, decode and reduce items.
 * Offsets are counted from the end of the header, where `words` of the shader's `Step` begins.
 */
const HEADER_WORDS = 5;
/**
 * Number of words in an item: first token, its position, first row, number of rows, first key or slot, end of keys or
 * slots, block table, slot.
 */
const ITEM_WORDS = 8;
const NO_SLOT = 0xffffffff;

/**
 * Plans a step, and divides its attention into items, one workgroup per item and KV head.
 *
 * Sequences with few queries become decode items, others prefill items. If a sequence's decode items are too few to
 * keep the device busy, they are split by keys, and reduce items combine their partial results. How sums are split does
 * not depend on the other sequences of a step.
 */
export class StepPlan {
  /** The plan. The first `length` words are valid: header, positions, slots, block tables, items. */
  readonly words: Uint32Array<ArrayBuffer>;
  length = 0;
  numTokens = 0;
  numPrefillItems = 0;
  numDecodeItems = 0;
  numReduceItems = 0;
  /** Maximum number of slots for partial results that a step within the limits can need. */
  readonly maxSlots: number;
  readonly #shape: AttentionShape;
  readonly #window: number;
  readonly #tiling: AttentionTiling;
  readonly #group: number;
  /** Number of decode items that keeps the device busy. */
  readonly #targetItems: number;
  /** Offset of each sequence's block table. */
  readonly #tables: Uint32Array;

  constructor(shape: AttentionShape, tiling: AttentionTiling, limits: StepLimits) {
    this.#shape = shape;
    this.#window = limits.window ?? 0;
    this.#tiling = tiling;
    this.#group = shape.heads / shape.kvHeads;
    this.#targetItems = Math.ceil(tiling.targetWorkgroups / shape.kvHeads);
    const { maxTokens, maxSequences, maxBlocksPerSequence } = limits;
    // A sequence's last item may be partly full.
    const maxWhole = maxSequences + Math.ceil(maxTokens * this.#group / tiling.decode.rows);
    // A sequence is split only if it has fewer items than the target. There are then at most as many parts as the
    // target, plus one for each of the items.
    const mostSplit = maxSequences * this.#targetItems;
    this.maxSlots = mostSplit + Math.min(mostSplit, maxWhole);
    // Splitting adds at most `maxSlots` items, and as many reductions.
    const maxItems = maxWhole + 2 * this.maxSlots;
    this.words = new Uint32Array(
      HEADER_WORDS + 2 * maxTokens + maxSequences * maxBlocksPerSequence + maxItems * ITEM_WORDS,
    );
    this.#tables = new Uint32Array(maxSequences);
  }

  /** Replaces the plan with one for `step`. */
  build(step: PackedStep): void {
    this.length = HEADER_WORDS;
    this.numTokens = step.numTokens;
    const positions = this.#mark();
    const { anglePositions = step.positions } = step;
    this.words.set(anglePositions.subarray(0, step.numTokens), this.length);
    this.length += step.numTokens;
    const slots = this.#mark();
    this.length += step.numTokens;
    this.#writeTables(step, slots + HEADER_WORDS);

    const prefill = this.#mark();
    this.numPrefillItems = this.#writePrefillItems(step);
    const decode = this.#mark();
    this.numDecodeItems = this.#writeDecodeItems(step);
    const reduce = this.#mark();
    this.numReduceItems = this.#writeReduceItems(step);
    this.words.set([positions, slots, prefill, decode, reduce]);
  }

  #mark(): number {
    return this.length - HEADER_WORDS;
  }

  /** Writes the used part of each block table, and the cache slot of each token. */
  #writeTables(step: PackedStep, slots: number): void {
    const { blockSize } = this.#shape;
    for (let s = 0; s < step.sequences.length; s++) {
      const row = s * step.maxBlocksPerSequence;
      const numBlocks = Math.ceil(step.kvLengths[s]! / blockSize);
      this.#tables[s] = this.#mark();
      this.words.set(step.blockTables.subarray(row, row + numBlocks), this.length);
      this.length += numBlocks;
      for (let token = step.queryStarts[s]!; token < step.queryStarts[s + 1]!; token++) {
        const position = step.positions[token]!;
        const block = step.blockTables[row + Math.floor(position / blockSize)]!;
        this.words[slots + token] = block * blockSize + position % blockSize;
      }
    }
  }

  #countRows(step: PackedStep, s: number): number {
    return (step.queryStarts[s + 1]! - step.queryStarts[s]!) * this.#group;
  }

  #isDecode(step: PackedStep, s: number): boolean {
    const { tile, maxDecodedRows } = this.#tiling;
    if (tile === undefined) return true;
    const sequence = step.sequences[s];
    if (typeof sequence === "object" && "isDecoding" in sequence) {
      return sequence.isDecoding === true;
    }
    return this.#countRows(step, s) <= maxDecodedRows;
  }

  #writePrefillItems(step: PackedStep): number {
    const { tile } = this.#tiling;
    if (tile === undefined) return 0;
    let count = 0;
    for (let s = 0; s < step.sequences.length; s++) {
      if (this.#isDecode(step, s)) continue;
      const numRows = this.#countRows(step, s);
      // The last rows see the most keys: they are started first, so that they do not finish last.
      for (let i = Math.ceil(numRows / tile.rows) - 1; i >= 0; i--) {
        const start = i * tile.rows;
        const rows = Math.min(tile.rows, numRows - start);
        this.#writeItem(step, s, start, rows, 0, step.kvLengths[s]!, NO_SLOT);
        count++;
      }
    }
    return count;
  }

  /** The first key that any query of a sequence sees. */
  #firstKey(step: PackedStep, s: number): number {
    if (this.#window === 0) return 0;
    const first = step.kvLengths[s]! - (step.queryStarts[s + 1]! - step.queryStarts[s]!);
    return Math.max(0, first - this.#window + 1);
  }

  /** Number of keys in each part of a sequence's split decode items. */
  #countSplitKeys(step: PackedStep, s: number): number {
    const { decode, minSplitKeys } = this.#tiling;
    const items = Math.ceil(this.#countRows(step, s) / decode.rows);
    if (items >= this.#targetItems) return Infinity;
    const tileKeys = decodeKeys(decode);
    const keys = items * (step.kvLengths[s]! - this.#firstKey(step, s));
    return Math.max(minSplitKeys, Math.ceil(keys / this.#targetItems / tileKeys) * tileKeys);
  }

  #writeDecodeItems(step: PackedStep): number {
    const { rows: decodeRows } = this.#tiling.decode;
    let count = 0;
    let slot = 0;
    for (let s = 0; s < step.sequences.length; s++) {
      if (!this.#isDecode(step, s)) continue;
      const numRows = this.#countRows(step, s);
      const endKey = step.kvLengths[s]!;
      const firstKey = this.#firstKey(step, s);
      const splitKeys = this.#countSplitKeys(step, s);
      for (let start = 0; start < numRows; start += decodeRows) {
        const rows = Math.min(decodeRows, numRows - start);
        if (endKey - firstKey <= splitKeys) {
          this.#writeItem(step, s, start, rows, firstKey, endKey, NO_SLOT);
          count++;
          continue;
        }
        for (let key = firstKey; key < endKey; key += splitKeys) {
          this.#writeItem(step, s, start, rows, key, Math.min(key + splitKeys, endKey), slot++);
          count++;
        }
      }
    }
    return count;
  }

  #writeReduceItems(step: PackedStep): number {
    const { rows: decodeRows } = this.#tiling.decode;
    let count = 0;
    let slot = 0;
    for (let s = 0; s < step.sequences.length; s++) {
      const numKeys = step.kvLengths[s]! - this.#firstKey(step, s);
      const splitKeys = this.#countSplitKeys(step, s);
      if (!this.#isDecode(step, s) || numKeys <= splitKeys) continue;
      const numRows = this.#countRows(step, s);
      const splits = Math.ceil(numKeys / splitKeys);
      for (let start = 0; start < numRows; start += decodeRows) {
        const rows = Math.min(decodeRows, numRows - start);
        this.#writeItem(step, s, start, rows, slot, slot + splits, NO_SLOT);
        slot += splits;
        count++;
      }
    }
    return count;
  }

  #writeItem(
    step: PackedStep,
    s: number,
    rowStart: number,
    numRows: number,
    start: number,
    end: number,
    slot: number,
  ): void {
    const { words } = this;
    const numQueries = step.queryStarts[s + 1]! - step.queryStarts[s]!;
    words[this.length++] = step.queryStarts[s]!;
    words[this.length++] = step.kvLengths[s]! - numQueries;
    words[this.length++] = rowStart;
    words[this.length++] = numRows;
    words[this.length++] = start;
    words[this.length++] = end;
    words[this.length++] = this.#tables[s]!;
    words[this.length++] = slot;
  }
}
