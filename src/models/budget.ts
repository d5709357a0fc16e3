/**
 * A budget that is shared, and a queue of those who wait for a part.
 *
 * @module
 */
import { SizeQueue } from "./size_queue.ts";

/** Small requests overtake large ones, but not forever. */
export class Budget {
  readonly #total: number;
  #left: number;
  #numTaken = 0;
  readonly #waiting = new SizeQueue<void>();

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
    const size = Math.min(wanted, this.#total);
    const entered = this.#waiting.wait(size, signal, () => this.#admit());
    this.#admit();
    await entered;
    return () => this.#giveBack(size);
  }

  #giveBack(amount: number): void {
    this.#left += amount;
    this.#numTaken--;
    this.#admit();
  }

  /** Room is reserved for one that was overtaken too often. */
  #admit(): void {
    const isAble = ({ size }: { readonly size: number }) => size <= this.#left;
    for (let next; (next = this.#waiting.takeNext(isAble, { keepsRoom: true })) !== undefined;) {
      this.#left -= next.size;
      this.#numTaken++;
      next.enter();
    }
  }
}
