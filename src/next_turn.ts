/**
 * Turns of a thread.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Lets messages in that have come, and timers that are due; a timer of its own would cost a millisecond. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A loop does not go on for longer without hearing all messages. */
const MAX_DEAF_MS = 100;

/**
 * The turns of a loop that keeps its thread busy, from now on.
 *
 * Deno's event loop was measured to pass over messages of other threads for up to a second while there is always a next
 * turn to take (`test/bench/turns_bench.ts`): now and then it must have nothing to do, for a timer's two milliseconds.
 */
export class BusyTurns {
  #heardAtMs = performance.now();

  /** Like {@linkcode nextTurn}; lets all messages in that have come at least ten times a second. */
  async next(): Promise<void> {
    if (performance.now() - this.#heardAtMs < MAX_DEAF_MS) return await nextTurn();
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#heardAtMs = performance.now();
  }
}
