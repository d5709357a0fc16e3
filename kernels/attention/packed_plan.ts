/**
 * A batch of packed sequences cut into items, one workgroup per item and KV head.
 *
 * @module
 */
import type { PackedBounds, PackedLimits } from "./packed_bounds.ts";

/** `Item` of attention_common.wgsl: first row of queries, 0, first row of the tile, rows, 0, keys, their first row, 0. */
const ITEM_WORDS = 8;

/** Lays a batch out. An item is a tile of rows of one sequence, a row being a pair (query, head of the group). */
export class PackedPlan {
  /** The first `length` are valid. */
  readonly words: Uint32Array<ArrayBuffer>;
  length = 0;
  readonly #group: number;
  readonly #tileRows: number;

  constructor(group: number, tileRows: number, { maxRows, maxSequences }: PackedLimits) {
    this.#group = group;
    this.#tileRows = tileRows;
    // The last item of each sequence may be part full.
    const maxItems = maxSequences + Math.ceil(maxRows * group / tileRows);
    this.words = new Uint32Array(maxItems * ITEM_WORDS);
  }

  get numItems(): number {
    return this.length / ITEM_WORDS;
  }

  /** Replaces the plan by that of `bounds`. */
  build({ numSequences, queryStarts, keyStarts, keyLengths }: PackedBounds): void {
    this.length = 0;
    for (let s = 0; s < numSequences; s++) {
      const first = queryStarts[s]!;
      const numRows = (queryStarts[s + 1]! - first) * this.#group;
      for (let start = 0; start < numRows; start += this.#tileRows) {
        const rows = Math.min(this.#tileRows, numRows - start);
        const item = [first, 0, start, rows, 0, keyLengths[s]!, keyStarts[s]!, 0];
        for (const word of item) this.words[this.length++] = word;
      }
    }
  }
}
