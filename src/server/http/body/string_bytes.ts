/**
 * The length of a JSON body's strings, regardless of how they are escaped.
 *
 * @module
 */

const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const HEX_DIGITS = 4;

/**
 * Counts the decoded UTF-8 bytes of JSON strings. Takes the bytes between their quotes, in any number of chunks.
 * `\u0430` counts as two bytes, just as `а` does.
 *
 * @example
 * ```ts
 * import { StringBytes } from "./string_bytes.ts";
 * import assert from "node:assert/strict";
 *
 * const counted = new StringBytes();
 * for (const chunk of ["a\\", "n\\u04", "30"]) counted.add(new TextEncoder().encode(chunk));
 * assert.equal(counted.bytes, "a\nа".length + 1);
 * ```
 */
export class StringBytes {
  #bytes = 0;
  /** Whether the last byte was a backslash that begins an escape. */
  #isEscaped = false;
  /** Hex digits of a `\u` that are still to come. */
  #numDigits = 0;
  #codeUnit = 0;
  /** Whether the previous code unit was a high surrogate. */
  #followsHigh = false;

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts the next bytes of a string. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#isEscaped) this.#readEscape(chunk[at++]!);
      else if (this.#numDigits > 0) this.#readDigit(chunk[at++]!);
      else at = this.#readPlain(chunk, at);
    }
  }

  /** Begins another string. */
  end(): void {
    this.#isEscaped = false;
    this.#numDigits = 0;
    this.#followsHigh = false;
  }

  /** Reads up to and including the next backslash. */
  #readPlain(chunk: Uint8Array, start: number): number {
    const found = chunk.indexOf(BACKSLASH, start);
    const end = found < 0 ? chunk.length : found;
    if (end > start) this.#followsHigh = false;
    this.#bytes += end - start;
    this.#isEscaped = found >= 0;
    return end + 1;
  }

  #readEscape(byte: number): void {
    this.#isEscaped = false;
    if (byte === LETTER_U) {
      this.#numDigits = HEX_DIGITS;
      this.#codeUnit = 0;
      return;
    }
    this.#followsHigh = false;
    this.#bytes++;
  }

  #readDigit(byte: number): void {
    // The parser refuses anything that is not a hex digit.
    this.#codeUnit = this.#codeUnit * 16 + (parseInt(String.fromCharCode(byte), 16) || 0);
    if (--this.#numDigits > 0) return;
    const unit = this.#codeUnit;
    const isLow = unit >= 0xdc00 && unit <= 0xdfff;
    // A surrogate pair is four bytes, and its first half was counted as three. A lone half is three.
    if (isLow && this.#followsHigh) this.#bytes += 1;
    else this.#bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    this.#followsHigh = unit >= 0xd800 && unit <= 0xdbff;
  }
}
