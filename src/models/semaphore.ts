/** Limits how many do something at a time. First come, first served. Each permit has a number, 0 to `size` - 1. */
export class Semaphore {
  readonly #size: number;
  readonly #free: number[];
  #waiting: ((permit: number) => void)[] = [];

  constructor(size: number) {
    this.#size = size;
    this.#free = Array.from({ length: size }, (_, permit) => permit);
  }

  get numAcquired(): number {
    return this.#size - this.#free.length;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /** Waits for a permit; the caller releases it. @throws the signal's reason when it is aborted first. */
  async acquire(signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    const permit = this.#free.pop();
    if (permit !== undefined) return permit;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const leave = () => {
      this.#waiting = this.#waiting.filter((each) => each !== resolve);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push(resolve);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** Hands a permit to the first who waits. */
  release(permit: number): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(permit);
    else next(permit);
  }
}
