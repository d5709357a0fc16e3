/**
 * Yields of a thread to its pending events.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Lets pending messages and due timers run; `setTimeout` would cost a millisecond. */
export function yieldToEvents(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Longest time a loop runs without handling all pending messages. */
const MAX_BUSY_MS = 100;

/**
 * The yields of a loop that keeps its thread busy.
 *
 * Deno's event loop was measured to pass over messages of other threads for up to a second while there is always a next
 * turn to take (`test/bench/turns_bench.ts`): so it must be idle now and then, for a timer's two milliseconds.
 */
export class BusyThread {
  readonly #maxBusyMs: number;
  #yieldedAtMs = performance.now();

  /** @param maxBusyMs longest time without an idle moment; 100 if absent. */
  constructor(maxBusyMs = MAX_BUSY_MS) {
    this.#maxBusyMs = maxBusyMs;
  }

  /** Like {@linkcode yieldToEvents}, but idle for a moment if the last such moment is too long ago. */
  async yield(): Promise<void> {
    if (performance.now() - this.#yieldedAtMs < this.#maxBusyMs) return await yieldToEvents();
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#yieldedAtMs = performance.now();
  }
}
