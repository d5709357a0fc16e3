/**
 * Keeps the remains of ended sequences: free blocks of the paged KV cache in the order in which they will be reused,
 * partly filled blocks, and slots with recurrent states.
 *
 * @module
 */
import { resizeArray } from "./int32_list.ts";
import type { Sequence } from "./sequence.ts";
import type { StepBatch } from "../decoder/decoder.ts";

const NONE = -1;
/** Index of the list's two ends: it precedes the first block and follows the last. Block `id` has index `id + 1`. */
const SENTINEL = 0;

/**
 * The blocks without references, in the order in which they will be reused. A doubly linked list within two arrays, so
 * that taking the first block, adding one at either end and removing one from the middle are all O(1).
 */
export class FreeList {
  #next = Int32Array.of(SENTINEL);
  #previous = Int32Array.of(SENTINEL);
  #length = 0;

  /** Creates a list of blocks 0 to `numBlocks - 1`, in that order. */
  constructor(numBlocks: number) {
    this.resize(numBlocks);
  }

  get length(): number {
    return this.#length;
  }

  has(blockId: number): boolean {
    return this.#next[blockId + 1] !== NONE;
  }

  /**
   * Changes the number of blocks. New blocks are reused before all others, the lowest first.
   *
   * @throws {Error} when a block that disappears is not in the list.
   */
  resize(numBlocks: number): void {
    const numBefore = this.#next.length - 1;
    for (let blockId = numBlocks; blockId < numBefore; blockId++) this.remove(blockId);
    this.#next = resizeArray(this.#next, numBlocks + 1, NONE);
    this.#previous = resizeArray(this.#previous, numBlocks + 1, NONE);
    for (let blockId = numBlocks - 1; blockId >= numBefore; blockId--) this.pushFirst(blockId);
  }

  /** Takes the block to reuse next; `undefined` if there is none. */
  takeFirst(): number | undefined {
    const first = this.#next[SENTINEL]!;
    if (first === SENTINEL) return undefined;
    this.remove(first - 1);
    return first - 1;
  }

  pushFirst(blockId: number): void {
    this.#insert(blockId, SENTINEL, this.#next[SENTINEL]!);
  }

  pushLast(blockId: number): void {
    this.#insert(blockId, this.#previous[SENTINEL]!, SENTINEL);
  }

  /** Removes a block. @throws {Error} when the block is not in the list. */
  remove(blockId: number): void {
    if (!this.has(blockId)) throw new Error(`Block ${blockId} is not free.`);
    const next = this.#next[blockId + 1]!;
    const previous = this.#previous[blockId + 1]!;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#next[blockId + 1] = NONE;
    this.#length--;
  }

  #insert(blockId: number, previous: number, next: number): void {
    if (this.has(blockId)) throw new Error(`Block ${blockId} is free already.`);
    const at = blockId + 1;
    this.#next[previous] = at;
    this.#previous[at] = previous;
    this.#next[at] = next;
    this.#previous[next] = at;
    this.#length++;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let at = this.#next[SENTINEL]!; at !== SENTINEL; at = this.#next[at]!) yield at - 1;
  }
}

interface Tail {
  readonly blockId: number;
  /** Tokens in the block's first slots: fewer than a block can hold. */
  readonly tokens: Int32Array;
}

/**
 * The partly filled last blocks ("tails") of sequences that have ended, by the full block before each. For each full
 * block only the newest tail is kept. Unlike a full block, a tail is not shared: a sequence that continues a tail takes
 * it over, and writes after the tokens that the sequence and the tail have in common. As in `BlockIndex`, the full
 * block stands for everything before it.
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

  /** Index, in a sequence's block table, of the block that becomes a tail; `undefined` if none does. */
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

type StateCopy = NonNullable<StepBatch["stateCopies"]>[number];

/**
 * Hands out slots for recurrent states. A slot that no sequence holds may keep a snapshot: the state after the last
 * token of a cached block. A cached prefix can be used up to a block that has a snapshot. When no slot is free, the
 * least recently used snapshot is replaced.
 *
 * Copies between slots are collected. The decoder makes them, in order, before the next step.
 */
export class StateSlots {
  readonly #free: number[];
  /** Slots of snapshots by block, least recently used first. */
  readonly #snapshots = new Map<number, number>();
  #copies: StateCopy[] = [];
  #taken: readonly StateCopy[] = [];

  constructor(numSlots: number) {
    this.#free = Array.from({ length: numSlots }, (_, i) => numSlots - 1 - i);
  }

  /** Takes a slot with arbitrary content; `undefined` when sequences hold all of them. */
  take(): number | undefined {
    const slot = this.#free.pop();
    if (slot !== undefined) return slot;
    const [oldest] = this.#snapshots.keys();
    if (oldest === undefined) return undefined;
    const own = this.#snapshots.get(oldest);
    this.#snapshots.delete(oldest);
    return own;
  }

  release(slot: number): void {
    this.#free.push(slot);
  }

  /** Whether there is a snapshot after a block. */
  has(blockId: number): boolean {
    return this.#snapshots.has(blockId);
  }

  /** Makes a slot the snapshot after a block. If there is one already, the slot becomes free. */
  keep(blockId: number, slot: number): void {
    if (this.has(blockId)) this.release(slot);
    else this.#snapshots.set(blockId, slot);
  }

  /** Copies a slot to a new snapshot after a block, unless there is one already, or no slot is left for it. */
  save(blockId: number, from: number): void {
    if (this.has(blockId)) return;
    const to = this.take();
    if (to === undefined) return;
    this.#copies.push({ from, to });
    this.#snapshots.set(blockId, to);
  }

  /** Takes a slot, as {@linkcode take} does, with a copy of the snapshot after a block. */
  takeCopy(blockId: number): number | undefined {
    const from = this.#snapshots.get(blockId)!;
    // Marks the snapshot as the most recently used.
    this.#snapshots.delete(blockId);
    this.#snapshots.set(blockId, from);
    const to = this.take();
    // If the snapshot is the only slot left, it is taken itself, without a copy.
    if (to !== undefined && to !== from) this.#copies.push({ from, to });
    return to;
  }

  /** Takes the slot of the snapshot after a block, which is then no longer a snapshot. */
  takeSnapshot(blockId: number): number {
    const slot = this.#snapshots.get(blockId)!;
    this.#snapshots.delete(blockId);
    return slot;
  }

  /** Frees the snapshot after a block whose content is no longer cached, if there is one. */
  forget(blockId: number): void {
    const slot = this.#snapshots.get(blockId);
    if (slot === undefined) return;
    this.#snapshots.delete(blockId);
    this.release(slot);
  }

  /** Takes the copies that the next step must make first. */
  takeCopies(): readonly StateCopy[] {
    this.#taken = this.#copies;
    this.#copies = [];
    return this.#taken;
  }

  /**
   * Called when the last step has failed, perhaps before it made its copies. Forgets the snapshots that these copies
   * should have filled.
   */
  abandonCopies(): void {
    const targets = new Set(this.#taken.map(({ to }) => to));
    for (const [blockId, slot] of this.#snapshots) if (targets.has(slot)) this.forget(blockId);
    this.#taken = [];
  }
}
