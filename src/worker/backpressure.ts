/**
 * Backpressure between the worker that makes an answer and its reader.
 *
 * @module
 */

/** Counts pieces that were sent and not yet taken, and makes the sender wait when there are too many. */
export class Backpressure {
  readonly #max: number;
  #numUnread = 0;
  #room: PromiseWithResolvers<void> | undefined;

  /** @param max unread pieces while another is being made. */
  constructor(max: number) {
    this.#max = max;
  }

  /** A piece was sent. Resolves when another may be made. */
  sent(): Promise<void> {
    if (++this.#numUnread < this.#max) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** A piece was taken. */
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
