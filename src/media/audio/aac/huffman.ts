/**
 * Decodes Huffman codewords.
 *
 * @module
 */
import type { BitReader } from "../bit_reader.ts";
import type { CodebookText } from "./codebooks.ts";

/** A codebook whose longer codewords are larger than shorter ones. */
export class Codebook {
  readonly #values: Uint16Array;
  readonly #maxBits: number;
  /** Limit of each length in bits: the codewords up to that length are below it, filled up to `maxBits`. */
  readonly #limits: Uint32Array;
  /** What to add to a codeword of each length for its index among the values. */
  readonly #offsets: Int32Array;

  constructor({ counts, values }: CodebookText) {
    const lengths = counts.split(" ").map(Number);
    this.#values = Uint16Array.from(values.trim().split(/\s+/), Number);
    this.#maxBits = lengths.length;
    this.#limits = new Uint32Array(lengths.length + 1);
    this.#offsets = new Int32Array(lengths.length + 1);
    let code = 0;
    let position = 0;
    lengths.forEach((count, i) => {
      const bits = i + 1;
      code *= 2;
      this.#offsets[bits] = position - code;
      code += count;
      position += count;
      this.#limits[bits] = code * 2 ** (this.#maxBits - bits);
    });
  }

  /** @throws {RangeError} when the bits end. */
  read(bits: BitReader): number {
    const ahead = bits.peek(this.#maxBits);
    let length = 1;
    while (ahead >= this.#limits[length]!) length++;
    bits.skip(length);
    return this.#values[(ahead >>> (this.#maxBits - length)) + this.#offsets[length]!]!;
  }
}
