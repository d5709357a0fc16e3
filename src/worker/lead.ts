/**
 * How far the making of an answer is ahead of its reader.
 *
 * @module
 */

/** Counts pieces that were sent and not yet taken, and holds the sender back when they are enough. */
export class Lead {
  readonly #max: number;
  #size = 0;
  #room: PromiseWithResolvers<void> | undefined;

  /** @param max pieces that may lie unread while another is made. */
  constructor(max: number) {
    this.#max = max;
  }

  /** A piece was sent. Resolves when another may be made. */
  grow(): Promise<void> {
    if (++this.#size < this.#max) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** A piece was taken. */
  shrink(): void {
    this.#size--;
    if (this.#size < this.#max) this.#release();
  }

  /** Nobody reads any more: the sender goes on, and finds that out by itself. */
  forget(): void {
    this.#size = -Infinity;
    this.#release();
  }

  #release(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
