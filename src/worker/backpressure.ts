/**
 * Backpressure between the worker that makes an answer and its reader.
 *
 * @module
 */

/** Counts chunks that were sent and not yet taken, and makes the sender wait when there are too many. */
export class Backpressure {
  readonly #max: number;
  #numUnread = 0;
  #room: PromiseWithResolvers<void> | undefined;

  /** @param max unread chunks while another is being made. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a chunk that was sent. Resolves when the next may be made. */
  sent(): Promise<void> {
    if (++this.#numUnread < this.#max) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** Counts a chunk that the reader has taken. */
  taken(): void {
    this.#numUnread--;
    if (this.#numUnread < this.#max) this.#release();
  }

  /** Stops counting, because the reader has gone: the sender no longer waits. */
  disable(): void {
    this.#numUnread = -Infinity;
    this.#release();
  }

  #release(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
