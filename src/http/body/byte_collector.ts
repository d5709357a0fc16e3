/**
 * Joins chunks as they arrive.
 *
 * @module
 */

const FIRST_BYTES = 1024;

/** A buffer that grows; given the right expected size, it never has to. */
export class ByteCollector {
  #bytes: Uint8Array<ArrayBuffer>;
  #length = 0;

  constructor({ expectedBytes }: { expectedBytes: number }) {
    this.#bytes = new Uint8Array(Math.max(FIRST_BYTES, expectedBytes));
  }

  get length(): number {
    return this.#length;
  }

  push(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#bytes.length) {
      // Large memory is moved, not copied.
      const larger = Math.max(length, this.#bytes.length * 2);
      this.#bytes = new Uint8Array(this.#bytes.buffer.transfer(larger));
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }

  /** The bytes, owned by the caller; the collector must not be used afterwards. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }
}
