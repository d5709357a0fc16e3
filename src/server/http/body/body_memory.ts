/**
 * Limits on request bodies: the memory that they hold together, and the slowest rate at which a body may arrive.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";

const MIB = 1024 * 1024;

/** The memory budget that all bodies being read share. */
export class BodyBudget {
  readonly #maxBytes: number;
  #numBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes held now. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** Whether memory is short, so that bodies must arrive faster. */
  get isShort(): boolean {
    return this.#numBytes > this.#maxBytes / 2;
  }

  /** Opens the share of one body. */
  open(): BodyShare {
    let held = 0;
    const add = (numBytes: number) => {
      held += numBytes;
      this.#numBytes += numBytes;
    };
    return {
      take: (numBytes) => {
        if (this.#numBytes + numBytes > this.#maxBytes) throw tooMany(this.#maxBytes);
        add(numBytes);
      },
      give: (numBytes) => add(-numBytes),
      [Symbol.dispose]: () => add(-held),
    };
  }
}

/** The part of the budget that one body holds until it is disposed of. */
export interface BodyShare extends Disposable {
  /** Adds bytes to the share. @throws {HearthError} `overloaded` when all bodies together would hold too much. */
  take(numBytes: number): void;
  /** Returns bytes to the budget. */
  give(numBytes: number): void;
}

function tooMany(maxBytes: number): HearthError {
  return new HearthError(
    "overloaded",
    `The request bodies being read hold all of the ${maxBytes / MIB} MiB that they may ` +
      "(--body-memory-mb). Try again later.",
  );
}

/** Smaller bodies may be arbitrarily slow. */
const HARMLESS_BYTES = 64 * 1024;

/** Fewest bytes that must arrive within a window. */
interface Pace {
  readonly windowMs: number;
  readonly minBytes: number;
}

/** Even a dial-up modem is only a little slower. */
const EASY: Pace = { windowMs: 20_000, minBytes: 20 * 8 * 1024 };
/** The rate required while memory for bodies is short. */
const URGENT: Pace = { windowMs: 5_000, minBytes: 5 * 128 * 1024 };

/** Watches the rate at which one body arrives. */
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
