/**
 * Concatenates byte arrays: at once, or as they arrive.
 *
 * @module
 */

/** A copy of all parts in one array. */
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
/** Copying this many bytes to a larger buffer takes a few milliseconds. */
const MAX_MOVED_BYTES = 4 * 2 ** 20;

/**
 * A buffer that grows. It never copies much: it reserves generously, since the system only provides memory that is
 * written to.
 */
export class ByteCollector {
  readonly #maxBytes: number;
  #bytes: Uint8Array<ArrayBuffer>;
  #length = 0;

  /** @param options.maxBytes most that it will hold. */
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

  /** Where the next bytes go, at least `numBytes` of them. */
  room(numBytes: number): Uint8Array<ArrayBuffer> {
    const length = this.#length + numBytes;
    if (length > this.#bytes.length) this.#grow(length);
    return this.#bytes.subarray(this.#length);
  }

  /** Keeps as many bytes as were written to `room`. */
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
    // `ArrayBuffer.transfer` would write zeros to all of it.
    const moved = new Uint8Array(Math.max(length, larger));
    moved.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = moved;
  }
}
