/** The merges of pairs of tokens, in order of precedence. */
export class MergeTable {
  /** Slots of a hash table with open addressing: left id + 1 (0 if the slot is free), right id, rank, merged id. */
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(capacity: number) {
    let size = 16;
    while (size < 2 * capacity) size *= 2;
    this.#slots = new Int32Array(4 * size);
    this.#mask = size - 1;
  }

  /** Sets a pair's rank and result. If it is set again, the last rank applies. */
  set(left: number, right: number, { rank, merged }: { rank: number; merged: number }): void {
    const at = 4 * this.#find(left, right);
    this.#slots[at] = left + 1;
    this.#slots[at + 1] = right;
    this.#slots[at + 2] = rank;
    this.#slots[at + 3] = merged;
  }

  /** The rank of a pair; -1 if it is not merged. */
  getRank(left: number, right: number): number {
    const at = 4 * this.#find(left, right);
    return this.#slots[at] === 0 ? -1 : this.#slots[at + 2]!;
  }

  /** The token that a pair merges to. */
  getMerged(left: number, right: number): number {
    return this.#slots[4 * this.#find(left, right) + 3]!;
  }

  #find(left: number, right: number): number {
    const slots = this.#slots;
    const hash = Math.imul(left + 1, 0x9e3779b1) ^ Math.imul(right + 1, 0x85ebca6b);
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    while (slots[4 * slot] !== 0) {
      if (slots[4 * slot] === left + 1 && slots[4 * slot + 1] === right) break;
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}
