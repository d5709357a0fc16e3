/**
 * Who holds which block of the paged KV cache, and which prefixes are still in it.
 *
 * @module
 */
import type { DecoderLimits } from "../decoder/decoder.ts";
import { BlockIndex } from "./block_index.ts";
import { BlockTails } from "./block_tails.ts";
import { FreeList } from "./free_list.ts";
import type { Sequence } from "./sequence.ts";
import type { StateSlots } from "./state_slots.ts";

/** A tail, and how many of its tokens a sequence goes on from. */
interface FoundTail {
  readonly blockId: number;
  readonly numTokens: number;
}

/** `numUsedBlocks + numCachedBlocks + numFreeBlocks` is the whole pool. */
export interface BlockStats {
  /** Blocks some sequence holds. */
  readonly numUsedBlocks: number;
  /** Blocks nobody holds that keep a known prefix until they are reused. */
  readonly numCachedBlocks: number;
  /** Blocks that hold nothing of use. */
  readonly numFreeBlocks: number;
  /** Prompt tokens of all sequences that were started. */
  readonly numPrefixQueryTokens: number;
  /** How many of those were found in the prefix cache. */
  readonly numPrefixHitTokens: number;
  /** Blocks with a known prefix that were reused for something else. */
  readonly numEvictedBlocks: number;
}

/** What a sequence that waits would take from the free list. */
interface AdmissionNeeds {
  readonly numBlocks: number;
  /** How many of them hold its own prefix already. */
  readonly numFound: number;
}

/**
 * Hands out the blocks of the KV cache and counts references to them.
 *
 * A block that is full is sealed: it is never written again, other sequences find it by its content and refer to it.
 * No content is kept twice: a sequence that fills a block whose content another has sealed meanwhile moves to that one.
 * A block nobody holds goes to the free list, and stays findable there until it is reused: those that hold nothing
 * first, then the longest unused. A sequence gives its blocks back last to first, so that a prefix outlives what
 * follows it. The block that it has filled in part stays findable likewise, for one sequence that goes on from there.
 */
export class BlockManager {
  #numBlocks: number;
  readonly #blockSize: number;
  readonly #sharesBlocks: boolean;
  #references: Int32Array;
  readonly #free: FreeList;
  readonly #index: BlockIndex;
  readonly #tails: BlockTails;
  #numCachedBlocks = 0;
  #numPrefixQueryTokens = 0;
  #numPrefixHitTokens = 0;
  #numEvictedBlocks = 0;

  readonly #slots: StateSlots | undefined;

  /** @param slots of states, where sequences have such: a prefix is only as good as the state behind it. */
  constructor(
    limits: Pick<DecoderLimits, "numBlocks" | "blockSize" | "sharesBlocks">,
    slots?: StateSlots,
  ) {
    this.#slots = slots;
    this.#numBlocks = limits.numBlocks;
    this.#blockSize = limits.blockSize;
    this.#sharesBlocks = limits.sharesBlocks;
    this.#references = new Int32Array(limits.numBlocks);
    this.#free = new FreeList(limits.numBlocks);
    this.#index = new BlockIndex(limits.numBlocks, limits.blockSize);
    this.#tails = new BlockTails(limits.blockSize);
  }

  /**
   * Gives a sequence that holds nothing the blocks for all its tokens: full ones already in the cache by reference, the
   * tail behind them if it begins with the same tokens, the others new. At least its last token is left to compute, for
   * its logits.
   *
   * @param numSpare blocks that must be left over.
   * @returns false, and changes nothing, when there are not enough blocks.
   */
  admit(sequence: Sequence, numSpare: number): boolean {
    const { blockIds, length } = sequence;
    const { numBlocks, tail } = this.#findPrefix(sequence);
    if (numBlocks + numSpare > this.#free.length || !this.#takeSlot(sequence, tail)) {
      blockIds.clear();
      return false;
    }
    for (const blockId of blockIds.view()) this.#acquire(blockId);
    sequence.numSealedBlocks = blockIds.length;
    sequence.numComputed = blockIds.length * this.#blockSize +
      (tail === undefined ? 0 : this.#takeTail(sequence, tail));
    if (sequence.numCachedTokens === undefined) {
      sequence.numCachedTokens = sequence.numComputed;
      this.#numPrefixHitTokens += sequence.numComputed;
      this.#numPrefixQueryTokens += length;
    }
    return this.grow(sequence, length);
  }

  /** What {@linkcode admit} would take for a sequence that holds nothing. */
  needsOf(sequence: Sequence): AdmissionNeeds {
    const needs = this.#findPrefix(sequence);
    sequence.blockIds.clear();
    return needs;
  }

  /**
   * Gives a sequence blocks until they hold `numTokens`.
   *
   * @returns false when there are not enough; the sequence keeps those it got.
   */
  grow(sequence: Sequence, numTokens: number): boolean {
    while (sequence.blockIds.length * this.#blockSize < numTokens) {
      const blockId = this.#free.takeFirst();
      if (blockId === undefined) return false;
      if (this.#forgetContent(blockId)) this.#numEvictedBlocks++;
      this.#references[blockId] = 1;
      sequence.blockIds.push(blockId);
    }
    return true;
  }

  /** Makes the blocks that a sequence has filled findable. */
  seal(sequence: Sequence): void {
    if (!this.#sharesBlocks) return;
    const numFull = Math.floor(sequence.numComputed / this.#blockSize);
    for (let i = sequence.numSealedBlocks; i < numFull; i++) {
      const ownId = sequence.blockIds.at(i);
      const sealedId = this.#index.findOrAdd(sequence, i);
      if (sealedId === ownId) continue;
      this.#acquire(sealedId);
      sequence.blockIds.set(i, sealedId);
      this.#drop(ownId);
    }
    sequence.numSealedBlocks = numFull;
  }

  /** Keeps the state of a sequence as it is behind its last sealed block, for all that go on from there. */
  saveState({ blockIds, numSealedBlocks, numComputed, stateSlot }: Sequence): void {
    const isThere = numSealedBlocks > 0 && numComputed === numSealedBlocks * this.#blockSize;
    if (isThere) this.#slots?.save(blockIds.at(numSealedBlocks - 1), stateSlot!);
  }

  /** Takes all blocks from a sequence, which stay findable, and its state, which does as far as it is that of a block. */
  release(sequence: Sequence): void {
    const { blockIds } = sequence;
    const tail = this.#sharesBlocks ? this.#tails.indexOf(sequence) : undefined;
    if (tail !== undefined) {
      const older = this.#tails.after(blockIds.at(tail - 1));
      if (older !== undefined) this.#forgetTail(older);
      this.#tails.add(sequence);
    }
    this.#releaseSlot(sequence, tail);
    for (let i = blockIds.length - 1; i >= 0; i--) this.#drop(blockIds.at(i));
    blockIds.clear();
    sequence.numComputed = 0;
    sequence.numSealedBlocks = 0;
  }

  /** Forgets what the blocks of a scope hold, once no sequence of that scope is left. */
  forget(cacheScope: number): void {
    for (let blockId = 0; blockId < this.#numBlocks; blockId++) {
      if (!this.#index.has(blockId) || this.#index.scopeOf(blockId) !== cacheScope) continue;
      const tail = this.#tails.after(blockId);
      if (tail !== undefined) this.#forgetTail(tail);
      this.#slots?.forget(blockId);
      this.#free.remove(blockId);
      this.#index.remove(blockId);
      this.#numCachedBlocks--;
      this.#free.pushFirst(blockId);
    }
  }

  /**
   * Changes the number of blocks. Of a pool that gets smaller, the last blocks go with what they hold, and so do cached
   * blocks whose prefix goes.
   *
   * @returns false, and changes nothing, when a sequence holds a block that would go.
   */
  resize(numBlocks: number): boolean {
    for (let blockId = numBlocks; blockId < this.#numBlocks; blockId++) {
      if (this.#references[blockId]! > 0) return false;
    }
    for (const blockId of this.#blocksBehind(numBlocks)) this.#forgetContent(blockId);
    this.#free.resize(numBlocks);
    this.#index.resize(numBlocks);
    const references = new Int32Array(numBlocks);
    references.set(this.#references.subarray(0, numBlocks));
    this.#references = references;
    // Prefixes begin in low blocks, which stay longest.
    for (let blockId = Math.min(this.#numBlocks, numBlocks) - 1; blockId >= 0; blockId--) {
      if (!this.#free.has(blockId) || this.#holdsContent(blockId)) continue;
      this.#free.remove(blockId);
      this.#free.pushFirst(blockId);
    }
    this.#numBlocks = numBlocks;
    return true;
  }

  /** How many of a sequence's first `numTokens` tokens may come from blocks that other sequences hold. */
  numShareableTokens(numTokens: number): number {
    if (!this.#sharesBlocks) return 0;
    return Math.floor((numTokens - 1) / this.#blockSize) * this.#blockSize;
  }

  stats(): BlockStats {
    return {
      numUsedBlocks: this.#numBlocks - this.#free.length,
      numCachedBlocks: this.#numCachedBlocks,
      numFreeBlocks: this.#free.length - this.#numCachedBlocks,
      numPrefixQueryTokens: this.#numPrefixQueryTokens,
      numPrefixHitTokens: this.#numPrefixHitTokens,
      numEvictedBlocks: this.#numEvictedBlocks,
    };
  }

  /** Gives a sequence that holds nothing the indexed blocks of its prefix, without references yet. */
  #findPrefix(sequence: Sequence): AdmissionNeeds & { readonly tail: FoundTail | undefined } {
    const { blockIds, length } = sequence;
    for (let i = 0; i < this.numShareableTokens(length) / this.#blockSize; i++) {
      const blockId = this.#index.find(sequence, i);
      if (blockId === undefined) break;
      blockIds.push(blockId);
    }
    const tail = this.#trimToState(sequence);
    // A block in use costs nothing; one that is only cached leaves the free list like a new one.
    const numFound = blockIds.view().filter((id) => this.#references[id] === 0).length;
    const numUsed = blockIds.length - numFound;
    return { numBlocks: Math.ceil(length / this.#blockSize) - numUsed, numFound, tail };
  }

  /** The cached blocks that a pool without those from `firstGone` on cannot keep. */
  #blocksBehind(firstGone: number): Set<number> {
    const behind = new Set(this.#index.withPrefixFrom(firstGone));
    for (const blockId of [...behind]) {
      const tail = this.#tails.after(blockId);
      if (tail !== undefined) behind.add(tail);
    }
    for (let blockId = firstGone; blockId < this.#numBlocks; blockId++) {
      if (this.#tails.has(blockId)) behind.add(blockId);
    }
    return behind;
  }

  /** Whether a block is findable. */
  #holdsContent(blockId: number): boolean {
    return this.#index.has(blockId) || this.#tails.has(blockId);
  }

  /** Takes a block out of the index or the tails. @returns whether it was in either. */
  #forgetContent(blockId: number): boolean {
    this.#slots?.forget(blockId);
    if (this.#index.has(blockId)) this.#index.remove(blockId);
    else if (this.#tails.has(blockId)) this.#tails.remove(blockId);
    else return false;
    this.#numCachedBlocks--;
    return true;
  }

  #acquire(blockId: number): void {
    if (this.#references[blockId]!++ > 0) return;
    this.#free.remove(blockId);
    this.#numCachedBlocks--;
  }

  /** The tail behind a sequence's full blocks, if some of its tokens are those of the sequence. */
  #findTail(sequence: Sequence): FoundTail | undefined {
    const numTokens = this.#tails.countSame(sequence);
    if (numTokens === 0) return undefined;
    const { blockIds } = sequence;
    return { blockId: this.#tails.after(blockIds.at(blockIds.length - 1))!, numTokens };
  }

  /** Gives a sequence the tail behind its full blocks. @returns how many of its tokens that holds. */
  #takeTail(sequence: Sequence, { blockId, numTokens }: FoundTail): number {
    this.#tails.remove(blockId);
    this.#acquire(blockId);
    sequence.blockIds.push(blockId);
    return numTokens;
  }

  /** Takes those of a sequence's cached blocks away that no state is behind. @returns the tail that it can go on from. */
  #trimToState(sequence: Sequence): FoundTail | undefined {
    const slots = this.#slots;
    const tail = this.#findTail(sequence);
    if (slots === undefined) return tail;
    const isWhole = tail !== undefined && tail.numTokens === this.#tails.lengthOf(tail.blockId);
    if (isWhole && slots.has(tail.blockId)) return tail;
    const { blockIds } = sequence;
    let numKept = blockIds.length;
    while (numKept > 0 && !slots.has(blockIds.at(numKept - 1))) numKept--;
    blockIds.truncate(numKept);
    return undefined;
  }

  /** Gives a sequence a slot, with the state behind its cached tokens. @returns false when there is none. */
  #takeSlot(sequence: Sequence, tail: FoundTail | undefined): boolean {
    const slots = this.#slots;
    if (slots === undefined) return true;
    const { blockIds } = sequence;
    sequence.stateSlot = tail !== undefined
      ? slots.takeSnapshot(tail.blockId)
      : blockIds.length > 0
      ? slots.takeCopy(blockIds.at(blockIds.length - 1))
      : slots.take();
    return sequence.stateSlot !== undefined;
  }

  /** @param tail the index of the block that becomes a tail. */
  #releaseSlot(sequence: Sequence, tail: number | undefined): void {
    const { blockIds, numComputed, numSealedBlocks, stateSlot, isComputing } = sequence;
    if (this.#slots === undefined || stateSlot === undefined) return;
    const isSealed = numSealedBlocks > 0 && numComputed === numSealedBlocks * this.#blockSize;
    const last = tail ?? (isSealed ? numSealedBlocks - 1 : undefined);
    // What a step makes of it is known once that has run.
    if (last === undefined || isComputing) this.#slots.release(stateSlot);
    else this.#slots.keep(blockIds.at(last), stateSlot);
    sequence.stateSlot = undefined;
    sequence.isComputing = false;
  }

  /** Makes a tail a block that holds nothing of use. */
  #forgetTail(blockId: number): void {
    this.#slots?.forget(blockId);
    this.#tails.remove(blockId);
    this.#free.remove(blockId);
    this.#numCachedBlocks--;
    this.#free.pushFirst(blockId);
  }

  #drop(blockId: number): void {
    if (--this.#references[blockId]! > 0) return;
    if (this.#holdsContent(blockId)) {
      this.#free.pushLast(blockId);
      this.#numCachedBlocks++;
    } else this.#free.pushFirst(blockId);
  }
}
