/**
 * Measures a JSON body while it is read, before anything of it is decoded.
 *
 * @module
 */
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const SPACE = 0x20;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const MEDIA_PREFIXES = ["base64://", "data:"];
const MAX_PREFIX_BYTES = 9;

/**
 * Counts how many bytes of a JSON body are text and how deep it nests. Text is everything but media: strings
 * that start with `base64://` or `data:`, and the value of a key `data`, as OpenAI's `input_audio` has it.
 * It takes any bytes; whether they are JSON is for the parser to say.
 *
 * @example
 * ```ts
 * import { TextMeter } from "./text_meter.ts";
 * import assert from "node:assert/strict";
 *
 * const meter = new TextMeter();
 * meter.feed(new TextEncoder().encode('{"url":"base64://AAAA"}'));
 * assert.equal(meter.textBytes, '{"url":""}'.length);
 * assert.equal(meter.maxDepth, 1);
 * ```
 */
export class TextMeter {
  #textBytes = 0;
  #depth = 0;
  #maxDepth = 0;
  #isInString = false;
  /** The chunk before ended inside a string, in a backslash that escapes the next byte. */
  #isEscaped = false;
  #isMedia = false;
  #isDataValueNext = false;
  /** The first bytes of the string last begun. */
  #prefix = "";

  get textBytes(): number {
    return this.#textBytes;
  }

  get maxDepth(): number {
    return this.#maxDepth;
  }

  /** Takes the next bytes of the body. */
  feed(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#isInString ? this.#readString(chunk, at) : this.#readStructure(chunk, at);
    }
  }

  /** Reads from outside a string to behind the quote that begins one. */
  #readStructure(chunk: Uint8Array, start: number): number {
    let at = start;
    while (at < chunk.length && !this.#isInString) {
      const byte = chunk[at++]!;
      if (byte === QUOTE) this.#beginString();
      else if (byte === COLON) this.#isDataValueNext = this.#prefix === "data";
      else if (byte > SPACE) this.#readToken(byte);
    }
    this.#textBytes += at - start;
    return at;
  }

  #beginString(): void {
    this.#isInString = true;
    this.#isMedia = this.#isDataValueNext;
    this.#isDataValueNext = false;
    this.#prefix = "";
  }

  #readToken(byte: number): void {
    this.#isDataValueNext = false;
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      this.#maxDepth = Math.max(this.#maxDepth, ++this.#depth);
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      this.#depth--;
    }
  }

  /** Reads from inside a string to behind its closing quote. */
  #readString(chunk: Uint8Array, start: number): number {
    const end = this.#findClosingQuote(chunk, start);
    const missing = Math.min(MAX_PREFIX_BYTES - this.#prefix.length, end - start);
    if (missing > 0) {
      this.#prefix += String.fromCharCode(...chunk.subarray(start, start + missing));
      this.#isMedia ||= MEDIA_PREFIXES.some((prefix) => this.#prefix.startsWith(prefix));
    }
    if (!this.#isMedia) this.#textBytes += end - start;
    if (end === chunk.length) return end;
    this.#isInString = false;
    this.#textBytes++;
    return end + 1;
  }

  #findClosingQuote(chunk: Uint8Array, start: number): number {
    let from = this.#isEscaped ? start + 1 : start;
    this.#isEscaped = false;
    for (;;) {
      const quote = chunk.indexOf(QUOTE, from);
      const end = quote < 0 ? chunk.length : quote;
      const isEscaped = countBackslashesBefore(chunk, end, from) % 2 === 1;
      if (quote < 0) this.#isEscaped = isEscaped;
      if (quote < 0 || !isEscaped) return end;
      from = quote + 1;
    }
  }
}

function countBackslashesBefore(chunk: Uint8Array, end: number, from: number): number {
  let at = end;
  while (at > from && chunk[at - 1] === BACKSLASH) at--;
  return end - at;
}
