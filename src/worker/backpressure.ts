/**
 * Backpressure between the worker that makes an answer and its reader.
 *
 * @module
 */

/** Counts pieces that were sent and not yet taken, and holds the sender back when they are enough. */
export class Backpressure {
  readonly #max: number;
  #numUnread = 0;
  #room: PromiseWithResolvers<void> | undefined;

  /** @param max pieces that may lie unread while another is made. */
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

  /** Nobody reads any more: the sender goes on, and finds that out by itself. */
  disable(): void {
    this.#numUnread = -Infinity;
    this.#release();
  }

  #release(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
