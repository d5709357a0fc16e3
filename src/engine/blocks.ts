/**
 * Tracks which sequences hold which blocks of the paged KV cache, and which prefixes are cached.
 *
 * @module
 */
import type { DecoderLimits } from "../decoder/decoder.ts";
import { BlockIndex, type FoundPrefix, type FoundTail, PrefixSearch } from "./prefix_cache.ts";
import { BlockTails, FreeList, type StateSlots } from "./idle_blocks.ts";
import type { Sequence } from "./sequence.ts";
import { type AdmissionNeeds, type PoolStats, WindowBlocks } from "./window_blocks.ts";

/** Statistics of the main pool. `numUsedBlocks + numCachedBlocks + numFreeBlocks` is its size. */
export interface BlockStats extends PoolStats {
  /** Statistics of the pools for layers with a sliding window. */
  readonly windows: readonly PoolStats[];
  /** Prompt tokens of all sequences that were started. */
  readonly numPrefixQueryTokens: number;
  /** The part of these tokens that was found in the prefix cache. */
  readonly numPrefixHitTokens: number;
  /** Blocks of all pools whose cached content was given up, so that they could hold other content. */
  readonly numEvictedBlocks: number;
}

/** The cached prefix of a waiting sequence, and the blocks that it would need from each pool. */
interface AdmissiblePrefix extends FoundPrefix {
  /** Needs of the main pool, then of the window pools. */
  readonly needs: readonly AdmissionNeeds[];
}

/**
 * Hands out the blocks of the KV cache and counts references to them.
 *
 * A full block is sealed: it is never written again, and other sequences can find it by its content and refer to it. No
 * content is stored twice: when a sequence fills a block, and another block with the same content is already sealed,
 * the sequence switches to the sealed block. A block without references goes to the free list and stays findable until
 * it is reused. Blocks without content are reused first, then the least recently used. A sequence releases its blocks
 * from last to first, so that prefixes outlive what follows them. The partly filled last block of a released sequence
 * also stays findable, but only one sequence can continue from it.
 *
 * Layers with a sliding window have blocks of their own, see {@linkcode WindowBlocks}; all other layers share the
 * blocks of the main pool.
 */
export class BlockManager {
  #numBlocks: number;
  readonly #blockSize: number;
  readonly #sharesBlocks: boolean;
  #references: Int32Array;
  readonly #free: FreeList;
  readonly #index: BlockIndex;
  readonly #tails: BlockTails;
  readonly #prefixes: PrefixSearch;
  #numCachedBlocks = 0;
  #numPrefixQueryTokens = 0;
  #numPrefixHitTokens = 0;
  #numEvictedBlocks = 0;

  readonly #slots: StateSlots | undefined;
  readonly #windows: readonly WindowBlocks[];

  /**
   * @param slots slots for recurrent states, if the model has any: a cached prefix is only usable together with the
   * state after it.
   */
  constructor(
    limits: Pick<
      DecoderLimits,
      "numBlocks" | "blockSize" | "sharesBlocks" | "maxBatchTokens" | "windows"
    >,
    slots?: StateSlots,
  ) {
    this.#slots = slots;
    this.#windows = (limits.windows ?? []).map((window, tableIndex) =>
      new WindowBlocks(window, { ...limits, tableIndex })
    );
    this.#numBlocks = limits.numBlocks;
    this.#blockSize = limits.blockSize;
    this.#sharesBlocks = limits.sharesBlocks;
    this.#references = new Int32Array(limits.numBlocks);
    this.#free = new FreeList(limits.numBlocks);
    this.#index = new BlockIndex(limits.numBlocks, limits.blockSize);
    this.#tails = new BlockTails(limits.blockSize);
    this.#prefixes = new PrefixSearch({
      ...{ blockSize: limits.blockSize, index: this.#index, tails: this.#tails },
      ...{ slots, windows: this.#windows },
    });
  }

  /**
   * Gives a waiting sequence blocks for all its tokens: references to cached full blocks, the cached tail after them if
   * it begins with the same tokens, and new blocks for the rest. At least the last token is left to compute, because
   * its logits are needed. In layers with a window, the sequence gets the cached blocks that it needs. New blocks for
   * the tokens of one step must be free there, but the sequence gets them later.
   *
   * @param numSpare blocks of each pool that must remain free.
   * @returns false, without changing anything, if there are not enough blocks.
   */
  admit(sequence: Sequence, numSpare: number): boolean {
    const { blockIds, length } = sequence;
    const { needs, end, tail } = this.#findPrefix(sequence);
    const [ofMain, ...ofWindows] = needs as [AdmissionNeeds, ...AdmissionNeeds[]];
    const fits = ofMain.numBlocks + numSpare <= this.#free.length &&
      this.#windows.every((window, i) => window.hasRoomFor(ofWindows[i]!, numSpare));
    if (!fits || !this.#takeSlot(sequence, tail)) {
      blockIds.clear();
      return false;
    }
    for (const blockId of blockIds.view()) this.#acquire(blockId);
    sequence.numSealedBlocks = blockIds.length;
    sequence.numComputed = end.numTokens;
    if (tail !== undefined) this.#takeTail(sequence, tail);
    for (const window of this.#windows) window.admit(sequence, end);
    if (sequence.numCachedTokens === undefined) {
      sequence.numCachedTokens = sequence.numComputed;
      this.#numPrefixHitTokens += sequence.numComputed;
      this.#numPrefixQueryTokens += length;
    }
    return this.#growMain(sequence, length);
  }

  /** Counts the blocks of each pool that {@linkcode admit} would take for a waiting sequence. */
  countNeeds(sequence: Sequence): readonly AdmissionNeeds[] {
    const { needs } = this.#findPrefix(sequence);
    sequence.blockIds.clear();
    return needs;
  }

  /** Counts the blocks of each pool that a running sequence lacks to hold `numTokens` tokens. */
  countMissing(sequence: Sequence, numTokens: number): number[] {
    const numMissing = Math.ceil(numTokens / this.#blockSize) - sequence.blockIds.length;
    const ofWindows = this.#windows.map((each) => each.countMissing(sequence, numTokens));
    return [Math.max(0, numMissing), ...ofWindows];
  }

  /** How many of a sequence's tokens have blocks in every layer with a window, or could get free ones. */
  countWindowTokens(sequence: Sequence): number {
    return Math.min(...this.#windows.map((window) => window.countTokens(sequence)));
  }

  /**
   * Gives a sequence blocks until they can hold `numTokens`.
   *
   * @returns false if there are not enough; the sequence keeps those that it got.
   */
  grow(sequence: Sequence, numTokens: number): boolean {
    return this.#growMain(sequence, numTokens) &&
      this.#windows.every((each) => each.grow(sequence, numTokens));
  }

  #growMain(sequence: Sequence, numTokens: number): boolean {
    while (sequence.blockIds.length * this.#blockSize < numTokens) {
      const blockId = this.#free.takeFirst();
      if (blockId === undefined) return false;
      if (this.#forgetContent(blockId)) this.#numEvictedBlocks++;
      this.#references[blockId] = 1;
      sequence.blockIds.push(blockId);
    }
    return true;
  }

  /** Makes the blocks that a sequence has filled findable, and releases its blocks that have left the windows. */
  commit(sequence: Sequence): void {
    if (this.#sharesBlocks) this.#seal(sequence);
    for (const window of this.#windows) window.trim(sequence);
  }

  #seal(sequence: Sequence): void {
    const numFull = Math.floor(sequence.numComputed / this.#blockSize);
    for (let i = sequence.numSealedBlocks; i < numFull; i++) {
      const ownId = sequence.blockIds.at(i);
      const sealedId = this.#index.findOrAdd(sequence, i);
      if (sealedId !== ownId) {
        this.#acquire(sealedId);
        sequence.blockIds.set(i, sealedId);
        this.#drop(ownId);
      }
      for (const window of this.#windows) window.seal(sequence, i);
    }
    sequence.numSealedBlocks = numFull;
  }

  /** Saves the state of a sequence after its last sealed block, for sequences that continue from there. */
  saveState({ blockIds, numSealedBlocks, numComputed, stateSlot }: Sequence): void {
    const isThere = numSealedBlocks > 0 && numComputed === numSealedBlocks * this.#blockSize;
    if (isThere) this.#slots?.save(blockIds.at(numSealedBlocks - 1), stateSlot!);
  }

  /** Makes a slot the state of a sequence after its first `numTokens` tokens, which end with a sealed block. */
  keepState({ blockIds }: Sequence, numTokens: number, slot: number): void {
    this.#slots!.keep(blockIds.at(numTokens / this.#blockSize - 1), slot);
  }

  /**
   * Takes all blocks from a sequence; its sealed blocks and its tail stay findable. The sequence's state also stays
   * findable if it is the state after one of these blocks.
   */
  release(sequence: Sequence): void {
    const { blockIds } = sequence;
    const tail = this.#sharesBlocks ? this.#tails.findIndex(sequence) : undefined;
    if (tail !== undefined) {
      const older = this.#tails.after(blockIds.at(tail - 1));
      if (older !== undefined) this.#forgetTail(older);
      this.#tails.add(sequence);
      for (const window of this.#windows) window.keepTail(sequence, tail);
    }
    this.#releaseSlot(sequence, tail);
    for (const window of this.#windows) window.release(sequence);
    for (let i = blockIds.length - 1; i >= 0; i--) this.#drop(blockIds.at(i));
    blockIds.clear();
    sequence.numComputed = 0;
    sequence.numSealedBlocks = 0;
  }

  /** Forgets the content of all blocks of a scope, once no sequence of that scope is left. */
  forget(cacheScope: number): void {
    for (let blockId = 0; blockId < this.#numBlocks; blockId++) {
      if (!this.#index.has(blockId) || this.#index.getScope(blockId) !== cacheScope) continue;
      const tail = this.#tails.after(blockId);
      if (tail !== undefined) this.#forgetTail(tail);
      this.#forgetBehind(blockId);
      this.#free.remove(blockId);
      this.#index.remove(blockId);
      this.#numCachedBlocks--;
      this.#free.pushFirst(blockId);
    }
  }

  /**
   * Changes the number of blocks of a pool: 0 is the main pool, the others are window pools. When a pool shrinks, its
   * last blocks are removed. Other cached blocks lose their content if a block of their prefix is removed.
   *
   * @returns false, without changing anything, if a sequence holds a block that would be removed.
   */
  resize(numBlocks: number, pool = 0): boolean {
    return pool === 0 ? this.#resizeMain(numBlocks) : this.#windows[pool - 1]!.resize(numBlocks);
  }

  #resizeMain(numBlocks: number): boolean {
    for (let blockId = numBlocks; blockId < this.#numBlocks; blockId++) {
      if (this.#references[blockId]! > 0) return false;
    }
    for (const blockId of this.#findLost(numBlocks)) this.#forgetContent(blockId);
    this.#free.resize(numBlocks);
    this.#index.resize(numBlocks);
    const references = new Int32Array(numBlocks);
    references.set(this.#references.subarray(0, numBlocks));
    this.#references = references;
    // Blocks with low ids are used first, because a pool that shrinks loses the highest ids.
    for (let blockId = Math.min(this.#numBlocks, numBlocks) - 1; blockId >= 0; blockId--) {
      if (!this.#free.has(blockId) || this.#holdsContent(blockId)) continue;
      this.#free.remove(blockId);
      this.#free.pushFirst(blockId);
    }
    this.#numBlocks = numBlocks;
    return true;
  }

  /** How many of a sequence's first `numTokens` tokens are in blocks that it may share with other sequences. */
  numShareableTokens(numTokens: number): number {
    if (!this.#sharesBlocks) return 0;
    return Math.floor((numTokens - 1) / this.#blockSize) * this.#blockSize;
  }

  stats(): BlockStats {
    return {
      numUsedBlocks: this.#numBlocks - this.#free.length,
      numCachedBlocks: this.#numCachedBlocks,
      numFreeBlocks: this.#free.length - this.#numCachedBlocks,
      windows: this.#windows.map((window) => window.stats()),
      numPrefixQueryTokens: this.#numPrefixQueryTokens,
      numPrefixHitTokens: this.#numPrefixHitTokens,
      numEvictedBlocks: this.#windows.reduce(
        (sum, window) => sum + window.numEvictedBlocks,
        this.#numEvictedBlocks,
      ),
    };
  }

  /**
   * Puts the cached blocks of a waiting sequence's prefix into the sequence's block table, without referencing them
   * yet. Also counts the blocks that admission needs.
   */
  #findPrefix(sequence: Sequence): AdmissiblePrefix {
    const { blockIds, length } = sequence;
    const numShareable = this.numShareableTokens(length) / this.#blockSize;
    const { end, tail } = this.#prefixes.find(sequence, numShareable);
    // A block in use costs nothing. A block that is only cached leaves the free list, like a new one.
    const numFound = blockIds.view().filter((id) => this.#references[id] === 0).length;
    const numUsed = blockIds.length - numFound;
    const ofMain = { numBlocks: Math.ceil(length / this.#blockSize) - numUsed, numFound };
    const needs = [ofMain, ...this.#windows.map((window) => window.countNeeds(sequence, end))];
    return { needs, end, tail };
  }

  /** Finds the cached blocks that become useless when the pool loses its blocks from `firstGone` on. */
  #findLost(firstGone: number): Set<number> {
    const lost = new Set(this.#index.withPrefixFrom(firstGone));
    for (const blockId of [...lost]) {
      const tail = this.#tails.after(blockId);
      if (tail !== undefined) lost.add(tail);
    }
    for (let blockId = firstGone; blockId < this.#numBlocks; blockId++) {
      if (this.#tails.has(blockId)) lost.add(blockId);
    }
    return lost;
  }

  /** Whether a block is findable. */
  #holdsContent(blockId: number): boolean {
    return this.#index.has(blockId) || this.#tails.has(blockId);
  }

  /** Removes a block from the index or the tails. @returns whether it was in either. */
  #forgetContent(blockId: number): boolean {
    this.#forgetBehind(blockId);
    if (this.#index.has(blockId)) this.#index.remove(blockId);
    else if (this.#tails.has(blockId)) this.#tails.remove(blockId);
    else return false;
    this.#numCachedBlocks--;
    return true;
  }

  /** Forgets what is stored along with a block: the recurrent state after it, and blocks of layers with a window. */
  #forgetBehind(blockId: number): void {
    this.#slots?.forget(blockId);
    for (const window of this.#windows) window.forget(blockId);
  }

  #acquire(blockId: number): void {
    if (this.#references[blockId]!++ > 0) return;
    this.#free.remove(blockId);
    this.#numCachedBlocks--;
  }

  /** Gives a sequence the tail after its full blocks. */
  #takeTail(sequence: Sequence, { blockId }: FoundTail): void {
    this.#tails.remove(blockId);
    this.#acquire(blockId);
    sequence.blockIds.push(blockId);
  }

  /** Gives a sequence a state slot, with the state after its cached tokens. @returns false if there is none. */
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

  /** Releases a sequence's state slot. @param tail index, in the block table, of the block that becomes a tail. */
  #releaseSlot(sequence: Sequence, tail: number | undefined): void {
    const { blockIds, numComputed, numSealedBlocks, stateSlot, isComputing } = sequence;
    if (this.#slots === undefined || stateSlot === undefined) return;
    const isSealed = numSealedBlocks > 0 && numComputed === numSealedBlocks * this.#blockSize;
    const last = tail ?? (isSealed ? numSealedBlocks - 1 : undefined);
    // While a step is running, the state that it will leave is not known yet.
    if (last === undefined || isComputing) this.#slots.release(stateSlot);
    else this.#slots.keep(blockIds.at(last), stateSlot);
    sequence.stateSlot = undefined;
    sequence.isComputing = false;
  }

  /** Removes a tail. Its block then holds nothing useful, and is reused first. */
  #forgetTail(blockId: number): void {
    this.#forgetBehind(blockId);
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
