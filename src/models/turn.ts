/**
 * Turns of the worker's thread.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Lets messages in that have come: other requests, and the end of this one. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
