/**
 * A queue by size, the smallest first.
 *
 * @module
 */

/** How often an entry may be overtaken by later, smaller ones. */
const MAX_PASSED_OVER = 32;

/** A queued entry. */
export interface Waiter<Pass> {
  /** Of what it wants to do, in any unit. */
  readonly size: number;
  /** Ends its wait. */
  readonly enter: (pass: Pass) => void;
}

/**
 * A queue in which small entries overtake large ones, but not forever: one that was overtaken 32 times is next, then
 * small ones may overtake others again.
 */
export class SizeQueue<Pass> {
  readonly #waiting: Waiter<Pass>[] = [];
  readonly #numPassedOver = new Map<Waiter<Pass>, number>();

  get length(): number {
    return this.#waiting.length;
  }

  /**
   * Waits until {@linkcode takeNext} took the entry and something is passed to it.
   *
   * @param onLeave called when it left the queue without.
   * @throws the signal's reason when it is aborted first.
   */
  async wait(size: number, signal: AbortSignal, onLeave: () => void = () => {}): Promise<Pass> {
    const { promise, resolve, reject } = Promise.withResolvers<Pass>();
    const waiter = { size, enter: resolve };
    const leave = () => {
      this.#remove(waiter);
      reject(signal.reason);
      onLeave();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push(waiter);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * Takes the next entry among those that can begin.
   *
   * @param options.keepsRoom returns none while one that was overtaken too often cannot begin yet.
   */
  takeNext(
    isAble: (waiter: Waiter<Pass>) => boolean,
    { keepsRoom = false }: { readonly keepsRoom?: boolean } = {},
  ): Waiter<Pass> | undefined {
    const overdue = this.#waiting.find((each) =>
      this.#isOverdue(each) && (keepsRoom || isAble(each))
    );
    const next = overdue ?? this.#smallest(isAble);
    if (next === undefined || !isAble(next)) return undefined;
    if (next === overdue) this.#numPassedOver.clear();
    else this.#count(next);
    this.#remove(next);
    return next;
  }

  #remove(waiter: Waiter<Pass>): void {
    const at = this.#waiting.indexOf(waiter);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#numPassedOver.delete(waiter);
  }

  #isOverdue(waiter: Waiter<Pass>): boolean {
    return (this.#numPassedOver.get(waiter) ?? 0) >= MAX_PASSED_OVER;
  }

  /** The first among equals. */
  #smallest(isAble: (waiter: Waiter<Pass>) => boolean): Waiter<Pass> | undefined {
    let smallest: Waiter<Pass> | undefined;
    for (const each of this.#waiting) {
      if (isAble(each) && (smallest === undefined || each.size < smallest.size)) smallest = each;
    }
    return smallest;
  }

  /** Counts entries older than `next` as overtaken. */
  #count(next: Waiter<Pass>): void {
    for (const each of this.#waiting) {
      if (each === next) return;
      this.#numPassedOver.set(each, (this.#numPassedOver.get(each) ?? 0) + 1);
    }
  }
}
