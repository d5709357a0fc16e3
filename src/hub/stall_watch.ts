/**
 * Aborts stalled connections.
 *
 * @module
 */

/** Aborts its signal when no data arrived for some time, or when the given signal aborts. */
export class StallWatch implements Disposable {
  readonly #controller = new AbortController();
  readonly #stallMs: number;
  readonly signal: AbortSignal;
  #timer: ReturnType<typeof setTimeout>;

  constructor(stallMs: number, signal: AbortSignal | undefined) {
    this.#stallMs = stallMs;
    const own = this.#controller.signal;
    this.signal = signal === undefined ? own : AbortSignal.any([own, signal]);
    this.#timer = this.#start();
  }

  /** Data arrived. */
  reset(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #start(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.#controller.abort(), this.#stallMs);
  }
}
