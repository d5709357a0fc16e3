/**
 * Divides attention on the CPU into work items: rows of one sequence, where a row is a pair (query, head of the group).
 * The division does not affect the results.
 *
 * @module
 */
import type { StepLimits } from "./step_plan.ts";

/** Number of words in an `Item` of `wasm/layout.ts`: sequence, first row, rows, first head, heads. */
export const ITEM_WORDS = 5;
/** Rows that are processed together, as in `wasm/row_block.ts`. */
export const ROWS = 24;

/** The ranges of the sequences' queries. */
interface Sequences {
  readonly sequences: { readonly length: number };
  /** i32 `[sequences + 1]`. */
  readonly queryStarts: Int32Array;
}

/** Options for dividing sequences into items. */
export interface ItemOptions {
  readonly kvHeads: number;
  /** Number of query heads that share keys. */
  readonly group: number;
  readonly rowsPerItem: number;
  /**
   * Lets an item take several heads when a sequence has few rows. There is still about one item per thread, if there
   * are enough heads.
   */
  readonly joins?: { readonly numThreads: number };
}

/** Maximum number of words that the items of a step can take. */
export function maxItemWords(
  { maxTokens, maxSequences }: Pick<StepLimits, "maxTokens" | "maxSequences">,
  { kvHeads, group, rowsPerItem }: ItemOptions,
): number {
  // The last item of each sequence may be partly full.
  return (maxSequences + Math.ceil(maxTokens * group / rowsPerItem)) * kvHeads * ITEM_WORDS;
}

/**
 * Writes the items of a step. The items of a head are adjacent, so that its keys stay in the processor's cache. The
 * last rows come first: they may see the most keys, and long items should start early.
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
    // The heads of a cache block are adjacent, and longer contiguous reads are faster.
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
