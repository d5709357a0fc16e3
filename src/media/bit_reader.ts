/**
 * Reads bits, most significant first.
 *
 * @module
 */

/** Most bits that four bytes always contain, at whichever bit of the first byte they begin. */
const MAX_PEEK_BITS = 24;

/** Reads from a byte array, bit by bit. */
export class BitReader {
  readonly #bytes: Uint8Array;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Number of bits that are left. */
  get bitsLeft(): number {
    return this.#bytes.length * 8 - this.#position;
  }

  /** Number of bits read so far. */
  get position(): number {
    return this.#position;
  }

  /**
   * Reads `count` bits, at most 48, as an unsigned integer.
   *
   * @throws {RangeError} when there are fewer.
   */
  read(count: number): number {
    if (count > MAX_PEEK_BITS) {
      const high = this.read(count - MAX_PEEK_BITS);
      return high * 2 ** MAX_PEEK_BITS + this.read(MAX_PEEK_BITS);
    }
    const value = this.peek(count);
    this.skip(count);
    return value;
  }

  /** Like {@linkcode read}, in two's complement. */
  readSigned(count: number): number {
    const value = this.read(count);
    return value < 2 ** (count - 1) ? value : value - 2 ** count;
  }

  /** Counts the zeros before the next 1, and skips that too. */
  readUnary(): number {
    let count = 0;
    for (let next = this.peek(MAX_PEEK_BITS);; next = this.peek(MAX_PEEK_BITS)) {
      const zeros = Math.clz32(next) - (32 - MAX_PEEK_BITS);
      this.skip(next === 0 ? MAX_PEEK_BITS : zeros + 1);
      count += zeros;
      if (next !== 0) return count;
    }
  }

  /** Reads at most 24 bits without advancing; bits past the end are 0. */
  peek(count: number): number {
    const at = this.#position >>> 3;
    const bytes = this.#bytes;
    const word = (bytes[at] ?? 0) << 24 | (bytes[at + 1] ?? 0) << 16 | (bytes[at + 2] ?? 0) << 8 |
      (bytes[at + 3] ?? 0);
    // Two shifts, because a shift by 32 would do nothing.
    return word << (this.#position & 7) >>> 1 >>> (31 - count);
  }

  /** @throws {RangeError} when there are fewer bits. */
  skip(count: number): void {
    this.#position += count;
    if (this.bitsLeft < 0) throw new RangeError("The data ended in the middle of a value.");
  }

  /** Moves to the next byte boundary. */
  align(): void {
    this.#position = (this.#position + 7) & ~7;
  }
}
