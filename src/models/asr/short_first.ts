/**
 * Short recordings go first: long ones work while no short one is transcribed, and otherwise about an eighth of the
 * time.
 *
 * @module
 */
import { BusyThread } from "../../base/yield_to_events.ts";
import { untilAborted } from "../../base/until_aborted.ts";

/**
 * A long recording waits for short ones at most this many times as long as its last slice of work took, times the
 * number of long recordings waiting.
 */
const MAX_WAIT_RATIO = 8;

export class ShortFirst {
  readonly #now: () => number;
  #numShort = 0;
  readonly #waiting = new Set<() => void>();

  /** @param now the time in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Marks the beginning of a short transcription.
   *
   * @returns a function to call once, at its end.
   */
  begin(): () => void {
    this.#numShort++;
    return () => {
      if (--this.#numShort > 0) return;
      for (const resume of this.#waiting) resume();
    };
  }

  /**
   * Makes the yield function of a long recording.
   *
   * @returns a function to call before each slice of work, which may be a few milliseconds or one window. It lets other
   * work of the thread run, then waits until no short recording is being transcribed. It waits at most eight times as
   * long as the last slice took, times the number of long recordings waiting.
   */
  makeYieldForLong(signal: AbortSignal): () => Promise<void> {
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
