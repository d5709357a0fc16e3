/**
 * Memory of the bodies being read, over all requests.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";

const MIB = 1024 * 1024;

/** Bytes that all bodies being read may hold. */
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

  /** Whether memory is short, so that a higher rate is required. */
  get isShort(): boolean {
    return this.#numBytes > this.#maxBytes / 2;
  }

  /** A share for one body. */
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

/** What one body holds, until it is disposed of. */
export interface BodyShare extends Disposable {
  /** @throws {HearthError} `overloaded` when all bodies together would hold too much. */
  take(numBytes: number): void;
  /** Holds so many bytes less. */
  give(numBytes: number): void;
}

function tooMany(maxBytes: number): HearthError {
  return new HearthError(
    "overloaded",
    `The request bodies being read hold all of the ${maxBytes / MIB} MiB that they may ` +
      "(--body-memory-mb). Try again later.",
  );
}
