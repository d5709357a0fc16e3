/**
 * Tracks which sequences hold which blocks in layers with a sliding window.
 *
 * @module
 */
import { countMostWindowBlocks } from "../decoder/paged_limits.ts";
import type { WindowLimits } from "../decoder/decoder.ts";
import { FreeList } from "./idle_blocks.ts";
import { Int32List, resizeArray } from "./int32_list.ts";
import type { Sequence, WindowTable } from "./sequence.ts";

const NONE = -1;

/** Block counts of a pool. */
export interface PoolStats {
  /** Blocks held by a sequence. */
  readonly numUsedBlocks: number;
  /** Blocks that no sequence holds and that cache a prefix until they are reused. */
  readonly numCachedBlocks: number;
  /** Blocks without useful content. */
  readonly numFreeBlocks: number;
}

/** Blocks that a waiting sequence would take from a pool's free list. */
export interface AdmissionNeeds {
  readonly numBlocks: number;
  /** How many of them already hold the sequence's own prefix. */
  readonly numFound: number;
}

/**
 * The position from which a sequence continues: after `numTokens` tokens, which are held by the anchors in its table
 * and by the tail, if any.
 */
export interface PrefixEnd {
  readonly numTokens: number;
  readonly tail?: number | undefined;
}

/**
 * Hands out the blocks of layers with a window from a pool of their own. A block is released as soon as no later token
 * attends to any of its tokens, so a sequence never holds more than its window and the tokens of one step.
 *
 * The content of a block is identified by its anchor: the block of the main pool that holds the same tokens in the
 * other layers. (If there are no other layers, that block takes no memory.) A sequence can continue a cached prefix
 * from any position for which the window's blocks before it are still cached. As in the main pool, blocks that no
 * sequence holds stay cached until they are reused, least recently used first.
 */
export class WindowBlocks {
  readonly #window: number;
  readonly #blockSize: number;
  /** Index of this pool's table among a sequence's window tables. */
  readonly #tableIndex: number;
  readonly #mostHeld: number;
  #numBlocks: number;
  #references: Int32Array;
  #anchors: Int32Array;
  readonly #blockOfAnchor = new Map<number, number>();
  readonly #free: FreeList;
  #numCachedBlocks = 0;
  #numEvictedBlocks = 0;

  constructor(
    { window, numBlocks }: WindowLimits,
    { blockSize, maxBatchTokens, tableIndex }: {
      readonly blockSize: number;
      readonly maxBatchTokens: number;
      readonly tableIndex: number;
    },
  ) {
    this.#window = window;
    this.#blockSize = blockSize;
    this.#tableIndex = tableIndex;
    this.#mostHeld = countMostWindowBlocks({ window, blockSize, maxBatchTokens });
    this.#numBlocks = numBlocks;
    this.#references = new Int32Array(numBlocks);
    this.#anchors = new Int32Array(numBlocks).fill(NONE);
    this.#free = new FreeList(numBlocks);
  }

  /**
   * Whether there are enough blocks for a waiting sequence. If no sequence holds blocks of this pool, any number is
   * enough, because steps with fewer tokens need fewer blocks.
   */
  hasRoomFor({ numBlocks }: AdmissionNeeds, numSpare: number): boolean {
    const numAvailable = this.#free.length;
    return numBlocks + numSpare <= numAvailable || numAvailable === this.#numBlocks;
  }

  /** How many of a sequence's tokens have blocks, or could get free ones. */
  countTokens(sequence: Sequence): number {
    return (this.#getTable(sequence).blockIds.length + this.#free.length) * this.#blockSize;
  }

  get numEvictedBlocks(): number {
    return this.#numEvictedBlocks;
  }

  stats(): PoolStats {
    return {
      numUsedBlocks: this.#numBlocks - this.#free.length,
      numCachedBlocks: this.#numCachedBlocks,
      numFreeBlocks: this.#free.length - this.#numCachedBlocks,
    };
  }

  /**
   * Looks for blocks that the next token would attend to.
   *
   * @param anchors blocks of the main pool; the first `numAnchors` are considered.
   * @returns the last index whose block is not cached; `undefined` if all are.
   */
  findGap(
    anchors: Int32List,
    numAnchors: number,
    { numTokens, tail }: PrefixEnd,
  ): number | undefined {
    if (tail !== undefined && !this.#blockOfAnchor.has(tail)) return numAnchors;
    const first = this.#firstSeen(numTokens);
    for (let i = numAnchors - 1; i >= first; i--) {
      if (!this.#blockOfAnchor.has(anchors.at(i))) return i;
    }
    return undefined;
  }

  /**
   * Counts the blocks that {@linkcode admit} and the largest possible step would take for a sequence whose table holds
   * its anchors.
   */
  countNeeds({ blockIds, length }: Sequence, { numTokens, tail }: PrefixEnd): AdmissionNeeds {
    const first = this.#firstSeen(numTokens);
    const anchors = [...blockIds.view(first), ...tail === undefined ? [] : [tail]];
    const numUnused = anchors.filter((id) => this.#references[this.#blockOfAnchor.get(id)!] === 0);
    const end = Math.min(Math.ceil(length / this.#blockSize), first + this.#mostHeld);
    const numUsed = anchors.length - numUnused.length;
    return {
      numBlocks: Math.max(end - first, anchors.length) - numUsed,
      numFound: numUnused.length,
    };
  }

  /** Gives a waiting sequence the cached blocks that its next token attends to. */
  admit(sequence: Sequence, { numTokens, tail }: PrefixEnd): void {
    const { blockIds } = sequence;
    const first = this.#firstSeen(numTokens);
    const table: WindowTable = { blockIds: new Int32List(), first };
    for (let i = 0; i < blockIds.length; i++) {
      const anchor = blockIds.at(i);
      const blockId = i < first ? 0 : this.#blockOfAnchor.get(anchor)!;
      if (i >= first) this.#acquire(blockId);
      // A tail is going to be written, so it must not be shared.
      if (anchor === tail) this.#forgetContent(blockId);
      table.blockIds.push(blockId);
    }
    sequence.windowTables[this.#tableIndex] = table;
  }

  /** How many blocks a sequence lacks to compute `numTokens` of its tokens, counting no more than one step can use. */
  countMissing(sequence: Sequence, numTokens: number): number {
    const { blockIds, first } = this.#getTable(sequence);
    const wanted = Math.min(Math.ceil(numTokens / this.#blockSize), first + this.#mostHeld);
    return Math.max(0, wanted - blockIds.length);
  }

  /** The equivalent of `BlockManager.grow` for this pool. */
  grow(sequence: Sequence, numTokens: number): boolean {
    const { blockIds } = this.#getTable(sequence);
    while (blockIds.length * this.#blockSize < numTokens) {
      const blockId = this.#free.takeFirst();
      if (blockId === undefined) return false;
      if (this.#forgetContent(blockId)) this.#numEvictedBlocks++;
      this.#references[blockId] = 1;
      blockIds.push(blockId);
    }
    return true;
  }

  /** Takes from a sequence the blocks that its next token no longer attends to. */
  trim(sequence: Sequence): void {
    const table = this.#getTable(sequence);
    const first = Math.min(this.#firstSeen(sequence.numComputed), table.blockIds.length);
    for (; table.first < first; table.first++) this.#drop(table.blockIds.at(table.first));
  }

  /**
   * Makes a sequence's block findable by its anchor, which has just been sealed. If the anchor already has a block, the
   * sequence switches to that one.
   */
  seal(sequence: Sequence, index: number): void {
    const { blockIds } = this.#getTable(sequence);
    const anchor = sequence.blockIds.at(index);
    const ownId = blockIds.at(index);
    const knownId = this.#blockOfAnchor.get(anchor);
    if (knownId === undefined) return this.#cache(ownId, anchor);
    if (knownId === ownId) return;
    this.#acquire(knownId);
    blockIds.set(index, knownId);
    this.#drop(ownId);
  }

  /** Makes a sequence's partly filled block findable. Called before the block is released. */
  keepTail(sequence: Sequence, index: number): void {
    this.#cache(this.#getTable(sequence).blockIds.at(index), sequence.blockIds.at(index));
  }

  /** Takes all blocks from a sequence. */
  release(sequence: Sequence): void {
    const table = sequence.windowTables[this.#tableIndex];
    if (table === undefined) return;
    for (let i = table.blockIds.length - 1; i >= table.first; i--) this.#drop(table.blockIds.at(i));
    table.blockIds.clear();
    table.first = 0;
  }

  /** Forgets what is cached under an anchor whose own content is no longer cached. */
  forget(anchor: number): void {
    const blockId = this.#blockOfAnchor.get(anchor);
    if (blockId === undefined) return;
    this.#forgetContent(blockId);
    if (!this.#free.has(blockId)) return;
    this.#free.remove(blockId);
    this.#free.pushFirst(blockId);
  }

  /** The equivalent of `BlockManager.resize` for this pool. */
  resize(numBlocks: number): boolean {
    for (let blockId = numBlocks; blockId < this.#numBlocks; blockId++) {
      if (this.#references[blockId]! > 0) return false;
    }
    for (let blockId = numBlocks; blockId < this.#numBlocks; blockId++) {
      this.#forgetContent(blockId);
    }
    this.#free.resize(numBlocks);
    this.#references = resizeArray(this.#references, numBlocks);
    this.#anchors = resizeArray(this.#anchors, numBlocks, NONE);
    this.#numBlocks = numBlocks;
    return true;
  }

  /** The first block with a token that the token at `position` attends to. */
  #firstSeen(position: number): number {
    return Math.floor(Math.max(0, position - this.#window + 1) / this.#blockSize);
  }

  #getTable({ windowTables }: Sequence): WindowTable {
    return windowTables[this.#tableIndex]!;
  }

  #cache(blockId: number, anchor: number): void {
    this.#blockOfAnchor.set(anchor, blockId);
    this.#anchors[blockId] = anchor;
  }

  /** Forgets the content of a block. @returns whether it had any. */
  #forgetContent(blockId: number): boolean {
    const anchor = this.#anchors[blockId]!;
    if (anchor === NONE) return false;
    this.#blockOfAnchor.delete(anchor);
    this.#anchors[blockId] = NONE;
    if (this.#references[blockId] === 0) this.#numCachedBlocks--;
    return true;
  }

  /** Takes a reference to a cached block. */
  #acquire(blockId: number): void {
    if (this.#references[blockId]!++ > 0) return;
    this.#free.remove(blockId);
    this.#numCachedBlocks--;
  }

  #drop(blockId: number): void {
    if (--this.#references[blockId]! > 0) return;
    if (this.#anchors[blockId] === NONE) return this.#free.pushFirst(blockId);
    this.#free.pushLast(blockId);
    this.#numCachedBlocks++;
  }
}
