/**
 * Concatenates byte arrays, at once or as they arrive, and formats byte counts.
 *
 * @module
 */

/** Copies all parts into one array. */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const FIRST_BYTES = 1024;
/** A buffer that would grow to this size grows to the maximum at once, because copying it takes milliseconds. */
const MAX_MOVED_BYTES = 4 * 2 ** 20;

/**
 * A buffer that grows. It reserves more than it needs, so that it is seldom copied: memory that is never written to
 * costs nothing.
 */
export class ByteCollector {
  readonly #maxBytes: number;
  #bytes: Uint8Array<ArrayBuffer>;
  #length = 0;

  /** @param options.maxBytes maximum number of bytes that it will hold. */
  constructor({ maxBytes }: { maxBytes: number }) {
    this.#maxBytes = maxBytes;
    this.#bytes = new Uint8Array(Math.min(FIRST_BYTES, maxBytes));
  }

  get length(): number {
    return this.#length;
  }

  push(chunk: Uint8Array): void {
    this.room(chunk.length).set(chunk);
    this.advance(chunk.length);
  }

  /** The free part of the buffer, with room for at least `numBytes` bytes. Call {@linkcode advance} after writing. */
  room(numBytes: number): Uint8Array<ArrayBuffer> {
    const length = this.#length + numBytes;
    if (length > this.#bytes.length) this.#grow(length);
    return this.#bytes.subarray(this.#length);
  }

  /** Keeps the first `numBytes` bytes that were written to `room`. */
  advance(numBytes: number): void {
    this.#length += numBytes;
  }

  /** The bytes, owned by the caller; the collector must not be used afterwards. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(length: number): void {
    const doubled = Math.max(length, 2 * this.#bytes.length);
    const larger = doubled < MAX_MOVED_BYTES
      ? Math.min(doubled, this.#maxBytes)
      : Math.max(doubled, this.#maxBytes);
    // `ArrayBuffer.transfer` would write zeros to the rest of the new buffer.
    const moved = new Uint8Array(Math.max(length, larger));
    moved.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = moved;
  }
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB"] as const;

/**
 * Formats a byte count with three digits and a decimal unit, the convention of disks and model hubs.
 *
 * ```ts
 * import { formatBytes } from "./bytes.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(formatBytes(568_300_000), "568 MB");
 * ```
 */
export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const amount = bytes / 1000 ** power;
  const text = power === 0 ? String(amount) : amount.toPrecision(Math.max(3, countDigits(amount)));
  return `${text} ${UNITS[power]}`;
}

function countDigits(amount: number): number {
  return Math.floor(Math.log10(amount)) + 1;
}
