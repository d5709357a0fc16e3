/**
 * When a lost worker is replaced, and when not any more.
 *
 * @module
 */

const WINDOW_MS = 5 * 60_000;
const MAX_LOSSES_IN_WINDOW = 5;
const FIRST_WAIT_MS = 500;

/**
 * Remembers when workers were lost. The first loss is answered at once, each further one within five minutes
 * after twice the wait of the one before, and the sixth not at all: the fault will not go away by itself.
 */
export class RestartPolicy {
  readonly #lossesMs: number[] = [];

  /**
   * Records a loss at `nowMs`.
   *
   * @returns milliseconds to wait before the next worker is started, or `undefined` to give up.
   *
   * @example
   * ```ts
   * import { RestartPolicy } from "./restart_policy.ts";
   * const policy = new RestartPolicy();
   * policy.recordLoss(0); // 0
   * policy.recordLoss(1_000); // 500
   * ```
   */
  recordLoss(nowMs: number): number | undefined {
    while (this.#lossesMs.length > 0 && nowMs - this.#lossesMs[0]! >= WINDOW_MS) {
      this.#lossesMs.shift();
    }
    const earlier = this.#lossesMs.length;
    this.#lossesMs.push(nowMs);
    if (earlier >= MAX_LOSSES_IN_WINDOW) return undefined;
    return earlier === 0 ? 0 : FIRST_WAIT_MS * 2 ** (earlier - 1);
  }
}
