/**
 * Reads bits, most significant first.
 *
 * @module
 */

/** A position in a byte array, in bits. */
export class BitReader {
  readonly #bytes: Uint8Array;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Bits that are left. */
  get bitsLeft(): number {
    return this.#bytes.length * 8 - this.#position;
  }

  /**
   * The next `count` bits, at most 24, as an unsigned integer.
   *
   * @throws {RangeError} when there are fewer.
   */
  read(count: number): number {
    const value = this.peek(count);
    this.skip(count);
    return value;
  }

  /** The same without advancing; 0 for bits past the end. */
  peek(count: number): number {
    const at = this.#position >>> 3;
    const bytes = this.#bytes;
    const word = (bytes[at] ?? 0) << 24 | (bytes[at + 1] ?? 0) << 16 | (bytes[at + 2] ?? 0) << 8 |
      (bytes[at + 3] ?? 0);
    // Two shifts, because one by 32 does nothing.
    return word << (this.#position & 7) >>> 1 >>> (31 - count);
  }

  /** @throws {RangeError} when there are fewer bits. */
  skip(count: number): void {
    this.#position += count;
    if (this.bitsLeft < 0) throw new RangeError("The AAC data ended in the middle of a value.");
  }

  /** Moves to the beginning of a byte. */
  align(): void {
    this.#position = (this.#position + 7) & ~7;
  }
}
