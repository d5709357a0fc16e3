/**
 * Requests of sessions that are already open: they wait where new requests would be refused.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";

const RETRY_MS = 100;
const MAX_WAIT_MS = 60_000;

/**
 * Retries while the queue is full, for up to a minute.
 *
 * @throws {HearthError} what `ask` throws; `overloaded` after that time.
 * @throws the signal's reason.
 */
export async function whenRoom<T>(
  ask: () => T | Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const untilMs = performance.now() + MAX_WAIT_MS;
  for (;;) {
    signal.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      const isFull = error instanceof HearthError && error.kind === "overloaded";
      if (!isFull || performance.now() > untilMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}
