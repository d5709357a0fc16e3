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
   * Changes the number of blocks. New ones are reused before all others, the lowest first.
   *
   * @throws {Error} when a block that disappears is not in the list.
   */
  resize(numBlocks: number): void {
    const numBefore = this.#next.length - 1;
    for (let blockId = numBlocks; blockId < numBefore; blockId++) this.remove(blockId);
    this.#next = resized(this.#next, numBlocks + 1);
    this.#previous = resized(this.#previous, numBlocks + 1);
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

  /** Iterates from first to last. */
  *[Symbol.iterator](): Generator<number> {
    for (let at = this.#next[SENTINEL]!; at !== SENTINEL; at = this.#next[at]!) yield at - 1;
  }
}

/** Copies an array to another length, filled up with `NONE`. */
function resized(links: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const copy = new Int32Array(length).fill(NONE);
  copy.set(links.subarray(0, length));
  return copy;
}
