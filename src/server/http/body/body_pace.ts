/**
 * The least rate at which a body must arrive to keep the memory that it holds.
 *
 * @module
 */

/** Smaller bodies may be arbitrarily slow. */
const HARMLESS_BYTES = 64 * 1024;

/** Bytes that must come within a window. */
interface Pace {
  readonly windowMs: number;
  readonly minBytes: number;
}

/** A modem of the nineties is slower than this. */
const EASY: Pace = { windowMs: 20_000, minBytes: 20 * 8 * 1024 };
/** While memory for bodies is short. */
const URGENT: Pace = { windowMs: 5_000, minBytes: 5 * 128 * 1024 };

/** Watches one body. */
export class BodyPace {
  #numBytes = 0;
  #windowStartMs: number;
  #bytesInWindow = 0;

  constructor(nowMs: number) {
    this.#windowStartMs = nowMs;
  }

  /** Records received bytes. */
  add(numBytes: number): void {
    this.#numBytes += numBytes;
    this.#bytesInWindow += numBytes;
  }

  /** Whether the body is too slow at `nowMs`. Call it about every second. */
  isTooSlow(nowMs: number, { isShort }: { readonly isShort: boolean }): boolean {
    const { windowMs, minBytes } = isShort ? URGENT : EASY;
    if (nowMs - this.#windowStartMs < windowMs) return false;
    const isSlow = this.#bytesInWindow < minBytes && this.#numBytes > HARMLESS_BYTES;
    this.#windowStartMs = nowMs;
    this.#bytesInWindow = 0;
    return isSlow;
  }
}
