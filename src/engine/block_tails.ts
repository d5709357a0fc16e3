/**
 * Blocks that nobody holds and that are full only in part.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

interface Tail {
  readonly blockId: number;
  /** What its first slots hold; less than a block. */
  readonly tokens: Int32Array;
}

/**
 * The last blocks of sequences that have ended, by the full block before each, of which a tail is known: the newest.
 * Unlike a full block, a tail is not shared. Who continues it takes it, and writes on behind the tokens that are the
 * same. The full block stands for all before it, as in the index of blocks.
 *
 * Media do not appear in tails.
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

  /** The tail behind a full block. */
  after(predecessor: number): number | undefined {
    return this.#tails.get(predecessor)?.blockId;
  }

  /** How many tokens a tail holds. */
  getLength(blockId: number): number {
    return this.#tails.get(this.#predecessors.get(blockId)!)!.tokens.length;
  }

  /** The index in its table of the block that a sequence leaves as a tail, if it leaves one. */
  findIndex(sequence: Sequence): number | undefined {
    const { numComputed, numSealedBlocks } = sequence;
    const start = numSealedBlocks * this.#blockSize;
    const isTail = numSealedBlocks > 0 && numComputed > start &&
      !hasMedia(sequence, start, numComputed);
    return isTail ? numSealedBlocks : undefined;
  }

  /** Adds the tail of a sequence; the full block before it has none. */
  add(sequence: Sequence): void {
    const { numComputed, numSealedBlocks, blockIds } = sequence;
    const predecessor = blockIds.at(numSealedBlocks - 1);
    const blockId = blockIds.at(numSealedBlocks);
    const tokens = sequence.tokens.view(numSealedBlocks * this.#blockSize, numComputed).slice();
    this.#tails.set(predecessor, { blockId, tokens });
    this.#predecessors.set(blockId, predecessor);
  }

  /** Forgets a tail. */
  remove(blockId: number): void {
    this.#tails.delete(this.#predecessors.get(blockId)!);
    this.#predecessors.delete(blockId);
  }

  /** How many tokens of a sequence, whose table ends in a full block, are those of the tail behind it. */
  countSame(sequence: Sequence): number {
    const { blockIds, tokens, length } = sequence;
    if (blockIds.length === 0) return 0;
    const tail = this.#tails.get(blockIds.at(blockIds.length - 1));
    if (tail === undefined) return 0;
    const start = blockIds.length * this.#blockSize;
    // The last token is left to compute, for its logits.
    const most = Math.min(tail.tokens.length, length - 1 - start);
    const next = tokens.view(start, start + most);
    const end = next.findIndex((token, i) => token !== tail.tokens[i]);
    const numSame = end === -1 ? next.length : end;
    return hasMedia(sequence, start, start + numSame) ? 0 : numSame;
  }
}

/** Whether media stand in tokens `start` to `end`: equal placeholders may be different media. */
function hasMedia({ media }: Sequence, start: number, end: number): boolean {
  return media.some((span) => span.start < end && span.end > start);
}
