import { SizeQueue } from "./size_queue.ts";

/** How to acquire a permit. */
export interface AcquireOptions {
  /** Size of the work, in any unit: the smallest waiter goes first, the oldest among equals. */
  readonly size?: number | undefined;
}

/**
 * Limits how many do something at a time. Each permit has a number, 0 to `size` - 1. Small work overtakes waiting large
 * work, and of several permits half are never given to work above `maxSmall`.
 */
export class Semaphore {
  readonly #size: number;
  readonly #maxSmall: number;
  readonly #free: number[];
  readonly #waiting = new SizeQueue<number>();

  constructor(size: number, { maxSmall = Infinity }: { readonly maxSmall?: number } = {}) {
    this.#size = size;
    this.#maxSmall = maxSmall;
    this.#free = Array.from({ length: size }, (_, permit) => permit);
  }

  get numAcquired(): number {
    return this.#size - this.#free.length;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /** Waits for a permit; the caller releases it. @throws the signal's reason when it is aborted first. */
  async acquire(signal: AbortSignal, { size = 0 }: AcquireOptions = {}): Promise<number> {
    signal.throwIfAborted();
    if (this.#mayTake(size)) return this.#free.pop()!;
    return await this.#waiting.wait(size, signal);
  }

  /** Gives a permit to a waiter. */
  release(permit: number): void {
    this.#free.push(permit);
    const isAble = ({ size }: { readonly size: number }) => this.#mayTake(size);
    for (let next; (next = this.#waiting.takeNext(isAble)) !== undefined;) {
      next.enter(this.#free.pop()!);
    }
  }

  #mayTake(size: number): boolean {
    const isLarge = size > this.#maxSmall;
    return this.#free.length > (isLarge ? Math.floor(this.#size / 2) : 0);
  }
}
