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

  /** A chunk was sent. Resolves when another may be made. */
  sent(): Promise<void> {
    if (++this.#numUnread < this.#max) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** A chunk was taken. */
  taken(): void {
    this.#numUnread--;
    if (this.#numUnread < this.#max) this.#release();
  }

  /** The reader has gone: the sender no longer waits. */
  disable(): void {
    this.#numUnread = -Infinity;
    this.#release();
  }

  #release(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
