/**
 * Yields a thread to its pending events.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Lets pending messages and due timers run; `setTimeout` would cost a millisecond. */
export function yieldToEvents(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The longest time that a loop may run without handling all pending messages. */
const MAX_BUSY_MS = 100;

/**
 * Yields of a loop that keeps its thread busy.
 *
 * Measured in Deno: the event loop passes over messages of other threads for up to a second as long as the loop yields
 * by `setImmediate` (`test/bench/turns_bench.ts`), so it must be idle now and then, for the two milliseconds of a
 * timer.
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
