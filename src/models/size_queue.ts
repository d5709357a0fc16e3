/**
 * Those who wait, the smallest first.
 *
 * @module
 */

/** How often one who waits is passed over by smaller ones that came later. */
const MAX_PASSED_OVER = 32;

/** One who waits. */
export interface Waiter {
  /** Of what it wants to do, in any unit. */
  readonly size: number;
}

/**
 * A queue in which small ones pass large ones, though not for ever: one that has been passed over 32 times is next, and
 * then small ones may pass the others again.
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

  /** Takes one out that does not want to wait any longer. */
  remove(waiter: Waiting): void {
    const at = this.#waiting.indexOf(waiter);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#numPassedOver.delete(waiter);
  }

  /**
   * Takes out the one who is next among those who are able to begin.
   *
   * @param options.keepsRoom nobody is next while one waits that has been passed over too often and is not able yet.
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

  /** Those that came before `next` are passed over. */
  #count(next: Waiting): void {
    for (const each of this.#waiting) {
      if (each === next) return;
      this.#numPassedOver.set(each, (this.#numPassedOver.get(each) ?? 0) + 1);
    }
  }
}
