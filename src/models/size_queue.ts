/**
 * A queue by size, the smallest first.
 *
 * @module
 */

/** How often an entry may be overtaken by later, smaller ones. */
const MAX_PASSED_OVER = 32;

/** A queued entry. */
export interface Waiter {
  /** Of what it wants to do, in any unit. */
  readonly size: number;
}

/**
 * A queue in which small entries overtake large ones, but not forever: one that was overtaken 32 times is next, then
 * small ones may overtake others again.
 */
export class SizeQueue<Waiting extends Waiter> {
  readonly #waiting: Waiting[] = [];
  readonly #numPassedOver = new Map<Waiting, number>();

  get length(): number {
    return this.#waiting.length;
  }

  add(waiter: Waiting): void {
    this.#waiting.push(waiter);
  }

  /** Removes an entry that no longer waits. */
  remove(waiter: Waiting): void {
    const at = this.#waiting.indexOf(waiter);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#numPassedOver.delete(waiter);
  }

  /**
   * Takes the next entry among those that can begin.
   *
   * @param options.keepsRoom returns none while one that was overtaken too often cannot begin yet.
   */
  takeNext(
    isAble: (waiter: Waiting) => boolean,
    { keepsRoom = false }: { readonly keepsRoom?: boolean } = {},
  ): Waiting | undefined {
    const overdue = this.#waiting.find((each) =>
      this.#isOverdue(each) && (keepsRoom || isAble(each))
    );
    const next = overdue ?? this.#smallest(isAble);
    if (next === undefined || !isAble(next)) return undefined;
    if (next === overdue) this.#numPassedOver.clear();
    else this.#count(next);
    this.remove(next);
    return next;
  }

  #isOverdue(waiter: Waiting): boolean {
    return (this.#numPassedOver.get(waiter) ?? 0) >= MAX_PASSED_OVER;
  }

  /** The first among equals. */
  #smallest(isAble: (waiter: Waiting) => boolean): Waiting | undefined {
    let smallest: Waiting | undefined;
    for (const each of this.#waiting) {
      if (isAble(each) && (smallest === undefined || each.size < smallest.size)) smallest = each;
    }
    return smallest;
  }

  /** Counts entries older than `next` as overtaken. */
  #count(next: Waiting): void {
    for (const each of this.#waiting) {
      if (each === next) return;
      this.#numPassedOver.set(each, (this.#numPassedOver.get(each) ?? 0) + 1);
    }
  }
}
