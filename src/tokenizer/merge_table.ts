/** What pairs of tokens become, in the order of precedence. */
export class MergeTable {
  /** Slots of an open hash: left id + 1 (0: the slot is free), right id, rank, merged id. */
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(capacity: number) {
    let size = 16;
    while (size < 2 * capacity) size *= 2;
    this.#slots = new Int32Array(4 * size);
    this.#mask = size - 1;
  }

  /** A pair that is set again has the later rank. */
  set(left: number, right: number, { rank, merged }: { rank: number; merged: number }): void {
    const at = 4 * this.#find(left, right);
    this.#slots[at] = left + 1;
    this.#slots[at + 1] = right;
    this.#slots[at + 2] = rank;
    this.#slots[at + 3] = merged;
  }

  /** -1 if the pair is not merged. */
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
