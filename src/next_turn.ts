/**
 * Turns of a thread.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Lets pending messages and due timers run; `setTimeout` would cost a millisecond. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Longest time a loop runs without handling all pending messages. */
const MAX_BUSY_MS = 100;

/**
 * The turns of a loop that keeps its thread busy, from now on.
 *
 * Deno's event loop was measured to pass over messages of other threads for up to a second while there is always a next
 * turn to take (`test/bench/turns_bench.ts`): so it must be idle now and then, for a timer's two milliseconds.
 */
export class BusyTurns {
  #yieldedAtMs = performance.now();

  /** Like {@linkcode nextTurn}; lets all pending messages run at least ten times a second. */
  async next(): Promise<void> {
    if (performance.now() - this.#yieldedAtMs < MAX_BUSY_MS) return await nextTurn();
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#yieldedAtMs = performance.now();
  }
}
