/**
 * The work items of attention on the CPU: rows of one sequence, a row being a pair (query, head of the group). The
 * division does not affect the results.
 *
 * @module
 */
import type { StepLimits } from "./step_plan.ts";

/** Words of an `Item` of `wasm/layout.ts`: sequence, first row, rows, first head, heads. */
export const ITEM_WORDS = 5;
/** Rows that are processed together, as in `wasm/row_block.ts`. */
export const ROWS = 24;

/** The sequences' query ranges. */
interface Sequences {
  readonly sequences: { readonly length: number };
  /** i32 `[sequences + 1]`. */
  readonly queryStarts: Int32Array;
}

/** How sequences are divided. */
export interface ItemOptions {
  readonly kvHeads: number;
  /** Heads that share keys. */
  readonly group: number;
  readonly rowsPerItem: number;
  /**
   * Where few rows of a sequence are left, an item has several heads, but there are at least as many items as threads.
   */
  readonly joins?: { readonly numThreads: number };
}

/** Words that the items of any step take. */
export function maxItemWords(
  { maxTokens, maxSequences }: Pick<StepLimits, "maxTokens" | "maxSequences">,
  { kvHeads, group, rowsPerItem }: ItemOptions,
): number {
  // The last of each sequence may be part full.
  return (maxSequences + Math.ceil(maxTokens * group / rowsPerItem)) * kvHeads * ITEM_WORDS;
}

/**
 * Writes the items of a step: those of a head are adjacent, so that its keys stay in the processor's cache; the last
 * rows come first, since they may see the most keys, and long items should start early.
 *
 * @param skipped sequences to leave out.
 * @returns the number of items.
 */
export function writeItems(
  words: Uint32Array,
  { sequences, queryStarts }: Sequences,
  { kvHeads, group, rowsPerItem, joins, skipped = [] }: ItemOptions & {
    readonly skipped?: readonly number[];
  },
): number {
  let length = 0;
  for (let s = 0; s < sequences.length; s++) {
    if (skipped.includes(s)) continue;
    const numRows = (queryStarts[s + 1]! - queryStarts[s]!) * group;
    const parts = joins === undefined ? kvHeads : Math.ceil(joins.numThreads / sequences.length);
    const most = Math.min(Math.ceil(kvHeads / parts), Math.floor(rowsPerItem / numRows));
    // Heads of a block of the cache lie side by side, and memory is read the faster the longer the stretch.
    const numHeads = Math.max(1, most);
    for (let head = 0; head < kvHeads; head += numHeads) {
      for (let item = Math.ceil(numRows / rowsPerItem) - 1; item >= 0; item--) {
        const first = item * rowsPerItem;
        words[length++] = s;
        words[length++] = first;
        words[length++] = Math.min(rowsPerItem, numRows - first);
        words[length++] = head;
        words[length++] = Math.min(numHeads, kvHeads - head);
      }
    }
  }
  return length / ITEM_WORDS;
}
