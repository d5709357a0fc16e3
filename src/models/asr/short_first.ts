/**
 * Short recordings go first: long ones work while none is transcribed, and otherwise about an eighth of the time.
 *
 * @module
 */
import { BusyThread } from "../../base/yield_to_events.ts";
import { untilAborted } from "../../base/until_aborted.ts";

/** How much longer than its last turn a long recording waits for short ones at most, for each that waits. */
const MAX_WAIT_RATIO = 8;

export class ShortFirst {
  readonly #now: () => number;
  #numShort = 0;
  readonly #waiting = new Set<() => void>();

  /** @param now the time in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** A short recording is transcribed, until the result is called, once. */
  begin(): () => void {
    this.#numShort++;
    return () => {
      if (--this.#numShort > 0) return;
      for (const resume of this.#waiting) resume();
    };
  }

  /**
   * The turns of a long recording, from now on.
   *
   * @returns to be called before each piece of work, a few milliseconds to one window. Lets other work of the thread
   * run, and waits until no short recording is transcribed, at most eight times as long as the last piece took, and
   * as often as there are long recordings waiting.
   */
  turnsOfLong(signal: AbortSignal): () => Promise<void> {
    const thread = new BusyThread();
    let sinceMs = this.#now();
    return async () => {
      const tookMs = this.#now() - sinceMs;
      await thread.yield();
      await this.#untilNoneShort(MAX_WAIT_RATIO * tookMs, signal);
      signal.throwIfAborted();
      sinceMs = this.#now();
    };
  }

  async #untilNoneShort(maxMs: number, signal: AbortSignal): Promise<void> {
    if (this.#numShort === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const timer = setTimeout(resolve, maxMs * this.#waiting.size);
    try {
      await untilAborted(promise, signal);
    } finally {
      this.#waiting.delete(resolve);
      clearTimeout(timer);
    }
  }
}
