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
