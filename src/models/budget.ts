/**
 * An amount of something that is shared out, and those who wait for their part.
 *
 * @module
 */

interface Waiting {
  readonly amount: number;
  readonly enter: () => void;
}

/** See the module. First come, first served: whoever wants little does not overtake who wants much. */
export class Budget {
  readonly #total: number;
  #left: number;
  #numTaken = 0;
  #waiting: Waiting[] = [];

  constructor(total: number) {
    this.#total = total;
    this.#left = total;
  }

  /** Parts that are out. */
  get numTaken(): number {
    return this.#numTaken;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /**
   * Waits for a part; more than there is at all counts as all of it.
   *
   * @returns gives it back; to be called once.
   * @throws the signal's reason when it is aborted first.
   */
  async take(wanted: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const amount = Math.min(wanted, this.#total);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { amount, enter: resolve };
    const leave = () => {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      reject(signal.reason);
      this.#admit();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push(waiting);
    this.#admit();
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
    return () => this.#giveBack(amount);
  }

  #giveBack(amount: number): void {
    this.#left += amount;
    this.#numTaken--;
    this.#admit();
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#waiting[0]!.amount <= this.#left) {
      const { amount, enter } = this.#waiting.shift()!;
      this.#left -= amount;
      this.#numTaken++;
      enter();
    }
  }
}
