/**
 * Finds what the cache holds of the prefix of a waiting sequence.
 *
 * @module
 */
import type { BlockIndex } from "./block_index.ts";
import type { BlockTails } from "./idle_blocks.ts";
import type { Int32List } from "./int32_list.ts";
import type { Sequence } from "./sequence.ts";
import type { StateSlots } from "./state_slots.ts";
import type { PrefixEnd, WindowBlocks } from "./window_blocks.ts";

/** A tail, and how many of its tokens a sequence can reuse. */
export interface FoundTail {
  readonly blockId: number;
  readonly numTokens: number;
}

/** The position from which a sequence continues, and the tail that it ends with, if any. */
export interface FoundPrefix {
  readonly tail: FoundTail | undefined;
  readonly end: PrefixEnd;
}

/** Where prefixes are searched: in the main pool, and for states and windows behind its blocks. */
interface PrefixSearchParts {
  readonly blockSize: number;
  readonly index: BlockIndex;
  readonly tails: BlockTails;
  readonly slots: StateSlots | undefined;
  readonly windows: readonly WindowBlocks[];
}

/** A prefix counts as far as its blocks, the state after them, and the blocks of all windows before that are cached. */
export class PrefixSearch {
  readonly #parts: PrefixSearchParts;

  constructor(parts: PrefixSearchParts) {
    this.#parts = parts;
  }

  /** Puts the cached blocks among a sequence's first `numBlocks` into its empty table, without referencing them. */
  find(sequence: Sequence, numBlocks: number): FoundPrefix {
    for (let i = 0; i < numBlocks; i++) {
      const blockId = this.#parts.index.find(sequence, i);
      if (blockId === undefined) break;
      sequence.blockIds.push(blockId);
    }
    const tail = this.#trimToKnown(sequence);
    return { tail, end: this.#findEnd(sequence, tail) };
  }

  /** The position from which a sequence continues, given that its table holds the cached full blocks. */
  #findEnd({ blockIds }: Sequence, tail: FoundTail | undefined): PrefixEnd {
    const numTokens = blockIds.length * this.#parts.blockSize + (tail?.numTokens ?? 0);
    return { numTokens, tail: tail?.blockId };
  }

  /** Finds the tail after a sequence's full blocks, if it begins with the same tokens. */
  #findTail(sequence: Sequence): FoundTail | undefined {
    const numTokens = this.#parts.tails.countSame(sequence);
    if (numTokens === 0) return undefined;
    const { blockIds } = sequence;
    return { blockId: this.#parts.tails.after(blockIds.at(blockIds.length - 1))!, numTokens };
  }

  /**
   * Drops cached blocks from the end of a sequence's table until a state, and the blocks of all windows, are cached for
   * where it ends.
   *
   * @returns the tail that the sequence can continue from, if any.
   */
  #trimToKnown(sequence: Sequence): FoundTail | undefined {
    const tail = this.#findTail(sequence);
    if (tail !== undefined && this.#isKnownBehind(sequence, tail)) return tail;
    const { blockIds } = sequence;
    let numKept = blockIds.length;
    while (numKept > 0) {
      const gap = this.#findGap(blockIds, numKept);
      if (gap === undefined) break;
      numKept = gap;
    }
    blockIds.truncate(numKept);
    return undefined;
  }

  #isKnownBehind(sequence: Sequence, tail: FoundTail): boolean {
    const slots = this.#parts.slots;
    const isWhole = tail.numTokens === this.#parts.tails.getLength(tail.blockId);
    if (slots !== undefined && !(isWhole && slots.has(tail.blockId))) return false;
    const { blockIds } = sequence;
    const end = this.#findEnd(sequence, tail);
    return this.#parts.windows.every((each) =>
      each.findGap(blockIds, blockIds.length, end) === undefined
    );
  }

  /** The most blocks to keep if something is missing for `numKept`; `undefined` if nothing is. */
  #findGap(blockIds: Int32List, numKept: number): number | undefined {
    if (this.#parts.slots?.has(blockIds.at(numKept - 1)) === false) return numKept - 1;
    const end = { numTokens: numKept * this.#parts.blockSize };
    for (const window of this.#parts.windows) {
      const gap = window.findGap(blockIds, numKept, end);
      if (gap !== undefined) return gap;
    }
    return undefined;
  }
}
