const NONE = -1;

/**
 * The blocks nobody refers to, in the order in which they will be reused: a doubly linked list threaded through two
 * arrays, so that taking the first, putting one at either end and taking one out of the middle are all O(1).
 */
export class FreeList {
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** Stands before the first and after the last block. */
  readonly #sentinel: number;
  #length = 0;

  /** Holds blocks 0 to `numBlocks - 1`, in that order. */
  constructor(numBlocks: number) {
    this.#sentinel = numBlocks;
    this.#next = new Int32Array(numBlocks + 1).fill(NONE);
    this.#previous = new Int32Array(numBlocks + 1).fill(NONE);
    this.#next[numBlocks] = numBlocks;
    this.#previous[numBlocks] = numBlocks;
    for (let blockId = 0; blockId < numBlocks; blockId++) this.pushLast(blockId);
  }

  get length(): number {
    return this.#length;
  }

  has(blockId: number): boolean {
    return this.#next[blockId] !== NONE;
  }

  /** The block to reuse next, taken out; `undefined` when there is none. */
  takeFirst(): number | undefined {
    const first = this.#next[this.#sentinel]!;
    if (first === this.#sentinel) return undefined;
    this.remove(first);
    return first;
  }

  pushFirst(blockId: number): void {
    this.#insert(blockId, this.#sentinel, this.#next[this.#sentinel]!);
  }

  pushLast(blockId: number): void {
    this.#insert(blockId, this.#previous[this.#sentinel]!, this.#sentinel);
  }

  /** @throws {Error} when the block is not in the list. */
  remove(blockId: number): void {
    if (!this.has(blockId)) throw new Error(`Block ${blockId} is not free.`);
    const next = this.#next[blockId]!;
    const previous = this.#previous[blockId]!;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#next[blockId] = NONE;
    this.#length--;
  }

  #insert(blockId: number, previous: number, next: number): void {
    if (this.has(blockId)) throw new Error(`Block ${blockId} is free already.`);
    this.#next[previous] = blockId;
    this.#previous[blockId] = previous;
    this.#next[blockId] = next;
    this.#previous[next] = blockId;
    this.#length++;
  }

  /** First to last. */
  *[Symbol.iterator](): Generator<number> {
    for (let id = this.#next[this.#sentinel]!; id !== this.#sentinel; id = this.#next[id]!) {
      yield id;
    }
  }
}
