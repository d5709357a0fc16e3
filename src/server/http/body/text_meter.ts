/**
 * Measures a JSON body while it is read, before any of it is decoded.
 *
 * @module
 */
import {
  BASE64_FIELDS,
  FILE_FIELDS,
  MEDIA_FIELDS,
  MEDIA_LISTS,
} from "../../../wire/chat_message.ts";

const encoder = new TextEncoder();
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const SPACE = 0x20;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** The part of a media reference before its base64. Some JSON writers escape slashes. */
const MEDIA_HEAD = /^(?:base64:(?:\\?\/){2}|data:[^,]*;\s*base64\s*,)/i;
/** Also matches base64 without such a head: text whose first 16 characters cannot begin any other reference. */
const BARE_HEAD = new RegExp(`${MEDIA_HEAD.source}|^(?=[\\w+/-]{16})`, "i");
/** Names of the lists that hold media. */
const LIST_NAMES = new Set([...MEDIA_LISTS].map((path) => path.split(".").at(-2)!));
/** Number of bytes that are examined of a string: enough for the names of media fields. */
const MAX_PREFIX_BYTES = 16;
/** Number of bytes that are examined of a string in a media field: enough for a media type with its parameters. */
const MAX_HEAD_BYTES = 256;
/** Deeper arrays and objects are counted, but contain no media. */
const MAX_TRACKED_DEPTH = 16;

/** An open array or object. */
interface Frame {
  readonly isArray: boolean;
  /** Name of the current value. */
  name: string;
  /** The value of the object's field `type`; empty if it has not arrived. */
  type: string;
  numNames: number;
}

/** Receives the bytes of a body, in order, as text and media. The byte arrays are views of the chunks that were fed. */
interface BodyParts {
  onText(bytes: Uint8Array): void;
  /**
   * Called with base64 from a string in a media field. JSON's escapes are not resolved. If `mayBeText` is set, the
   * string may turn out to be a document's text, because the `type` that decides comes after it.
   */
  onMedia(bytes: Uint8Array, mayBeText: boolean): void;
  /** Called when the string that held the last media has ended. */
  onMediaEnd(): void;
}

/**
 * Measures a JSON body as it arrives: the UTF-8 bytes of its strings (with names, without media), its nesting depth, and
 * its counts of values, objects and names. It also separates media from text: media are base64 in the API's media
 * fields. It accepts any bytes, because the parser decides whether they are JSON.
 *
 * @example
 * ```ts
 * import { TextMeter } from "./text_meter.ts";
 * import assert from "node:assert/strict";
 *
 * const meter = new TextMeter();
 * const body = (media: string) => `{"messages":[{"content":[{"image_url":"${media}"}]}]}`;
 * meter.feed(new TextEncoder().encode(body("base64://AAAA")));
 * assert.equal(meter.textBytes, "messages".length + "content".length + "image_url".length + "base64://".length);
 * assert.equal(meter.maxDepth, 5);
 * ```
 */
export class TextMeter {
  readonly #strings = new StringBytes();
  #depth = 0;
  maxDepth = 0;
  /** Values in all arrays and objects together, counted by their commas and opening brackets. */
  numValues = 0;
  numObjects = 0;
  /** Maximum number of names in any one object. */
  maxNames = 0;
  readonly #frames: Frame[] = [];
  #isInString = false;
  /** Whether the last chunk ended inside a string, with a backslash that escapes the next byte. */
  #isEscaped = false;
  #isMedia = false;
  /** Whether the current string is in a media field. */
  #mayBeMedia = false;
  /** Whether the current string may be base64 without a head. */
  #mayBeBare = false;
  /** Whether the current string, which is passed on as media, may be a document's text. */
  #mayBeText = false;
  /** Whether the current string is the `type` of its object. */
  #isType = false;
  #isAfterColon = false;
  /** The first bytes of the most recent string. */
  #prefix = "";
  /** Index in the current chunk from which text has not been passed on yet. */
  #textStart = 0;
  readonly #parts: BodyParts | undefined;

  constructor(parts?: BodyParts) {
    this.#parts = parts;
  }

  get textBytes(): number {
    return this.#strings.bytes;
  }

  /** Takes the next bytes of the body. */
  feed(chunk: Uint8Array): void {
    let at = 0;
    this.#textStart = 0;
    while (at < chunk.length) {
      at = this.#isInString ? this.#readString(chunk, at) : this.#readStructure(chunk, at);
    }
    this.#endText(chunk, chunk.length);
  }

  /** Passes on the text up to `end`. */
  #endText(chunk: Uint8Array, end: number): void {
    if (end > this.#textStart) this.#parts?.onText(chunk.subarray(this.#textStart, end));
    this.#textStart = end;
  }

  /** Reads up to and including the next opening quote. @returns the index after the last byte that was read. */
  #readStructure(chunk: Uint8Array, start: number): number {
    let at = start;
    while (at < chunk.length && !this.#isInString) {
      const byte = chunk[at++]!;
      if (byte === QUOTE) this.#beginString();
      else if (byte > SPACE) this.#readToken(byte);
    }
    return at;
  }

  #beginString(): void {
    this.#isInString = true;
    this.#isMedia = false;
    this.#mayBeMedia = false;
    this.#mayBeBare = false;
    this.#isType = false;
    this.#prefix = "";
    if (!this.#isAfterColon) this.#beginItem();
    else {
      const path = this.#getPath();
      const [block, { name, type = "" } = {}] = this.#frames.slice(-2);
      this.#isType = name === "type";
      this.#isMedia = BASE64_FIELDS.has(path) && type !== "text";
      this.#mayBeText = this.#isMedia && type === "" &&
        (block?.type === "" || block?.type === "document");
      this.#mayBeBare = FILE_FIELDS.has(path);
      this.#mayBeMedia = this.#mayBeBare || MEDIA_FIELDS.has(path);
    }
    this.#isAfterColon = false;
  }

  /** Begins a string that does not follow a colon: a name, or an item of a list, which may hold media. */
  #beginItem(): void {
    const [owner, list] = this.#frames.slice(-2);
    if (!list?.isArray || !LIST_NAMES.has(owner!.name)) return;
    this.#mayBeMedia = this.#mayBeBare = MEDIA_LISTS.has(this.#getPath());
  }

  #getPath(): string {
    if (this.#depth > MAX_TRACKED_DEPTH) return "";
    return this.#frames.map(({ isArray, name }) => isArray ? "[]" : name).join(".");
  }

  #readToken(byte: number): void {
    const isColon = byte === COLON;
    if (isColon) this.#nameValue();
    else if (byte === COMMA) this.numValues++;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) this.#open(byte === OPEN_BRACKET);
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) this.#close();
    this.#isAfterColon = isColon;
  }

  #nameValue(): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined || frame.isArray || this.#depth > MAX_TRACKED_DEPTH) return;
    frame.name = this.#prefix;
    this.maxNames = Math.max(this.maxNames, ++frame.numNames);
  }

  #open(isArray: boolean): void {
    this.numValues++;
    if (!isArray) this.numObjects++;
    this.maxDepth = Math.max(this.maxDepth, ++this.#depth);
    if (this.#depth <= MAX_TRACKED_DEPTH) {
      this.#frames.push({ isArray, name: "", type: "", numNames: 0 });
    }
  }

  #close(): void {
    if (this.#depth-- <= MAX_TRACKED_DEPTH) this.#frames.pop();
  }

  /** Reads up to and including the closing quote of a string. @returns the index after the last byte that was read. */
  #readString(chunk: Uint8Array, start: number): number {
    const end = this.#findClosingQuote(chunk, start);
    const mediaStart = this.#isMedia ? start : this.#findMedia(chunk, start, end);
    this.#strings.add(chunk.subarray(start, mediaStart));
    if (this.#isMedia) this.#passMedia(chunk, mediaStart, end);
    if (end === chunk.length) return end;
    if (this.#isMedia) this.#parts?.onMediaEnd();
    if (this.#isType) this.#frames.at(-1)!.type = this.#prefix;
    this.#isInString = false;
    this.#strings.end();
    return end + 1;
  }

  /** Looks for media in a string, by its first bytes. @returns the index where its base64 begins; `end` if it has none. */
  #findMedia(chunk: Uint8Array, start: number, end: number): number {
    const seen = this.#prefix.length;
    const missing = (this.#mayBeMedia ? MAX_HEAD_BYTES : MAX_PREFIX_BYTES) - seen;
    if (missing <= 0 || end === start) return end;
    const taken = Math.min(missing, end - start);
    this.#prefix += String.fromCharCode(...chunk.subarray(start, start + taken));
    const pattern = this.#mayBeBare ? BARE_HEAD : MEDIA_HEAD;
    const head = this.#mayBeMedia ? pattern.exec(this.#prefix)?.[0] : undefined;
    if (head === undefined) return end;
    this.#isMedia = true;
    if (head.length >= seen) return start + head.length - seen;
    // This is base64 without a head, and its beginning arrived with an earlier chunk.
    this.#passBeginning(this.#prefix.slice(head.length, seen));
    return start;
  }

  /** Passes on the beginning of a string as media. Before it was recognised as media, it was passed on as text too. */
  #passBeginning(text: string): void {
    this.#parts?.onMedia(encoder.encode(text), this.#mayBeText);
  }

  #passMedia(chunk: Uint8Array, start: number, end: number): void {
    this.#endText(chunk, start);
    if (end > start) this.#parts?.onMedia(chunk.subarray(start, end), this.#mayBeText);
    this.#textStart = end;
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

const LETTER_U = 0x75;
const HEX_DIGITS = 4;

/**
 * Counts the decoded UTF-8 bytes of JSON strings. It takes the bytes between the quotes, in any number of chunks.
 * `\u0430` counts as two bytes, like the letter `а`.
 */
class StringBytes {
  bytes = 0;
  /** Whether the last byte was a backslash that begins an escape. */
  #isEscaped = false;
  /** Hex digits of a `\u` that are still to come. */
  #numDigits = 0;
  #codeUnit = 0;
  /** Whether the previous code unit was a high surrogate. */
  #followsHigh = false;

  /** Counts the next bytes of a string. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#isEscaped) this.#readEscape(chunk[at++]!);
      else if (this.#numDigits > 0) this.#readDigit(chunk[at++]!);
      else at = this.#readPlain(chunk, at);
    }
  }

  /** Ends the current string. */
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
    this.bytes += end - start;
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
    this.bytes++;
  }

  #readDigit(byte: number): void {
    // The parser refuses anything that is not a hex digit.
    this.#codeUnit = this.#codeUnit * 16 + (parseInt(String.fromCharCode(byte), 16) || 0);
    if (--this.#numDigits > 0) return;
    const unit = this.#codeUnit;
    const isLow = unit >= 0xdc00 && unit <= 0xdfff;
    // In UTF-8 a surrogate pair has four bytes, and a half that is alone has three. Three were counted for the first half.
    if (isLow && this.#followsHigh) this.bytes += 1;
    else this.bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    this.#followsHigh = unit >= 0xd800 && unit <= 0xdbff;
  }
}
