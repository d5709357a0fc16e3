/**
 * A budget that is shared, and a queue of those who wait for a part.
 *
 * @module
 */
import { SizeQueue, type Waiter } from "./size_queue.ts";

interface Waiting extends Waiter {
  readonly enter: () => void;
}

/** Small requests overtake large ones, but not forever. */
export class Budget {
  readonly #total: number;
  #left: number;
  #numTaken = 0;
  readonly #waiting = new SizeQueue<Waiting>();

  constructor(total: number) {
    this.#total = total;
    this.#left = total;
  }

  /** Parts in use. */
  get numTaken(): number {
    return this.#numTaken;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /**
   * Waits for a part; more than the total counts as the total.
   *
   * @returns a function that releases it; to be called once.
   * @throws the signal's reason when it is aborted first.
   */
  async take(wanted: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { size: Math.min(wanted, this.#total), enter: resolve };
    const leave = () => {
      this.#waiting.remove(waiting);
      reject(signal.reason);
      this.#admit();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.add(waiting);
    this.#admit();
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
    return () => this.#giveBack(waiting.size);
  }

  #giveBack(amount: number): void {
    this.#left += amount;
    this.#numTaken--;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) {
      this.#left -= next.size;
      this.#numTaken++;
      next.enter();
    }
  }

  /** Room is reserved for one that was overtaken too often. */
  #takeNext(): Waiting | undefined {
    return this.#waiting.takeNext(({ size }) => size <= this.#left, { keepsRoom: true });
  }
}
