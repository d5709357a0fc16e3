/**
 * A few numbered places, and those who wait for one.
 *
 * @module
 */

/** See the module. First come, first served. */
export class Places {
  readonly #size: number;
  readonly #free: number[];
  #waiting: ((place: number) => void)[] = [];

  constructor(size: number) {
    this.#size = size;
    this.#free = Array.from({ length: size }, (_, place) => place);
  }

  get numTaken(): number {
    return this.#size - this.#free.length;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /** Waits for a place; whoever gets it gives it back. @throws the signal's reason when it is aborted first. */
  async take(signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    const place = this.#free.pop();
    if (place !== undefined) return place;
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

  /** Hands a place to the first who waits. */
  giveBack(place: number): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(place);
    else next(place);
  }
}
