/**
 * Shares the turns of the event loop among connections, and with new ones.
 *
 * Reads of bytes that have arrived resolve without a turn of the loop, up to 128 in a row (Deno 2.9), and so do accepts:
 * a few clients that send, or connect, as fast as they can would leave no time to the others.
 *
 * @module
 */
import { BusyThread } from "../../../base/yield_to_events.ts";

/** Bytes that are read in a turn; handling them takes a fraction of a millisecond. */
export const TURN_BYTES = 64 * 1024;
/** What a read costs at least. */
const MIN_BYTES = 4 * 1024;
/**
 * Longest time without an idle moment. While every turn has work, connections that were waited for are looked at after
 * 61 turns only (the event interval of Tokio, which Deno runs on).
 */
const MAX_BUSY_MS = 20;

interface Waiting {
  readonly numBytes: number;
  readonly resolve: () => void;
}

/** What may be read in the current turn. */
export class ReadTurns {
  #left = TURN_BYTES;
  #hasNextTurn = false;
  readonly #thread = new BusyThread(MAX_BUSY_MS);
  readonly #waiting: Waiting[] = [];

  /**
   * Takes part of a turn; small reads do not wait for large ones.
   *
   * @returns what to wait for, if the current turn has too little left.
   */
  take(count: number): Promise<void> | undefined {
    const numBytes = Math.max(MIN_BYTES, Math.min(count, TURN_BYTES));
    this.#endTurn();
    if (numBytes <= this.#left) {
      this.#left -= numBytes;
      return undefined;
    }
    return new Promise((resolve) => void this.#waiting.push({ numBytes, resolve }));
  }

  #endTurn(): void {
    if (this.#hasNextTurn) return;
    this.#hasNextTurn = true;
    void this.#thread.yield().then(() => {
      this.#hasNextTurn = false;
      this.#left = TURN_BYTES;
      while (this.#waiting.length > 0 && this.#waiting[0]!.numBytes <= this.#left) {
        const { numBytes, resolve } = this.#waiting.shift()!;
        this.#left -= numBytes;
        resolve();
      }
      if (this.#left < TURN_BYTES) this.#endTurn();
    });
  }
}
