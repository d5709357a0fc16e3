/**
 * Partly filled blocks that no sequence holds.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

interface Tail {
  readonly blockId: number;
  /** Tokens of the block's first slots: fewer than a block has. */
  readonly tokens: Int32Array;
}

/**
 * The partly filled last blocks ("tails") of sequences that have ended, by the full block before each. For each full
 * block only the newest tail is kept. Unlike a full block, a tail is not shared: a sequence that continues it takes it
 * over, and writes behind the tokens that they have in common. As in the index of blocks, the full block stands for
 * everything before it.
 *
 * Tails never contain media.
 */
export class BlockTails {
  readonly #blockSize: number;
  readonly #tails = new Map<number, Tail>();
  readonly #predecessors = new Map<number, number>();

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  has(blockId: number): boolean {
    return this.#predecessors.has(blockId);
  }

  /** The tail after a full block, if there is one. */
  after(predecessor: number): number | undefined {
    return this.#tails.get(predecessor)?.blockId;
  }

  /** Number of tokens in a tail. */
  getLength(blockId: number): number {
    return this.#tails.get(this.#predecessors.get(blockId)!)!.tokens.length;
  }

  /** The position, in a sequence's block table, of the block that it leaves as a tail, if it leaves one. */
  findIndex(sequence: Sequence): number | undefined {
    const { numComputed, numSealedBlocks } = sequence;
    const start = numSealedBlocks * this.#blockSize;
    const isTail = numSealedBlocks > 0 && numComputed > start &&
      !hasMedia(sequence, start, numComputed);
    return isTail ? numSealedBlocks : undefined;
  }

  /** Adds the tail of a sequence. The full block before it must not have one. */
  add(sequence: Sequence): void {
    const { numComputed, numSealedBlocks, blockIds } = sequence;
    const predecessor = blockIds.at(numSealedBlocks - 1);
    const blockId = blockIds.at(numSealedBlocks);
    const tokens = sequence.tokens.view(numSealedBlocks * this.#blockSize, numComputed).slice();
    this.#tails.set(predecessor, { blockId, tokens });
    this.#predecessors.set(blockId, predecessor);
  }

  /** Removes a tail. */
  remove(blockId: number): void {
    this.#tails.delete(this.#predecessors.get(blockId)!);
    this.#predecessors.delete(blockId);
  }

  /**
   * Returns how many tokens the next block of a sequence has in common with the tail after its last full block. That
   * block must be the last one of the sequence's block table.
   */
  countSame(sequence: Sequence): number {
    const { blockIds, tokens, length } = sequence;
    if (blockIds.length === 0) return 0;
    const tail = this.#tails.get(blockIds.at(blockIds.length - 1));
    if (tail === undefined) return 0;
    const start = blockIds.length * this.#blockSize;
    // The last token must be computed anyway, for its logits.
    const most = Math.min(tail.tokens.length, length - 1 - start);
    const next = tokens.view(start, start + most);
    const end = next.findIndex((token, i) => token !== tail.tokens[i]);
    const numSame = end === -1 ? next.length : end;
    return hasMedia(sequence, start, start + numSame) ? 0 : numSame;
  }
}

/** Whether there are media among tokens `start` to `end`: equal placeholders may stand for different media. */
function hasMedia({ media }: Sequence, start: number, end: number): boolean {
  return media.some((span) => span.start < end && span.end > start);
}
