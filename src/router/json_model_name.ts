/**
 * Finds the top-level `"model"` of a JSON object while its bytes arrive. It checks nothing else: the model's server
 * parses the whole body.
 *
 * @module
 */

/** Finds the model's name in the body of a request. */
export interface NameScanner {
  /** Reads the next bytes. @returns whether the search is over. */
  push(chunk: Uint8Array): boolean;
  /** The name; `undefined` while it is unknown, and if the body has none. */
  readonly name: string | undefined;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPENING: ReadonlySet<number> = new Set([0x7b, 0x5b]);
const CLOSING: ReadonlySet<number> = new Set([0x7d, 0x5d]);
const BRACE = 0x7b;
/** JSON white space, and the bytes of a byte order mark. */
const BLANK: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** Longest name that is read. */
const MAX_NAME_BYTES = 4096;

const decoder = new TextDecoder();

/** Finds the model's name in JSON. */
export class JsonModelName implements NameScanner {
  name: string | undefined;
  #depth = 0;
  #isOver = false;
  #isInString = false;
  #isEscaped = false;
  /** Whether the next string of the outermost object is a value. */
  #isValue = false;
  #key: string | undefined;
  /** Bytes of the current string in the outermost object. */
  #text: number[] = [];

  push(chunk: Uint8Array): boolean {
    for (let at = 0; at < chunk.length && !this.#isOver; at++) {
      const byte = chunk[at]!;
      if (this.#isInString) this.#readInString(byte);
      else this.#readOutside(byte);
    }
    return this.#isOver;
  }

  #readInString(byte: number): void {
    if (byte === QUOTE && !this.#isEscaped) {
      this.#isInString = false;
      if (this.#depth === 1) this.#endString();
      return;
    }
    this.#isEscaped = byte === BACKSLASH && !this.#isEscaped;
    if (this.#depth === 1 && this.#text.length < MAX_NAME_BYTES) this.#text.push(byte);
  }

  #readOutside(byte: number): void {
    if (byte === QUOTE) {
      this.#isInString = true;
      this.#isEscaped = false;
      this.#text = [];
      // A string outside an object ends the search.
      this.#isOver = this.#depth === 0;
    } else if (OPENING.has(byte)) {
      this.#depth++;
      if (this.#depth === 1) this.#isOver = byte !== BRACE;
    } else if (CLOSING.has(byte)) {
      this.#depth--;
      this.#isOver = this.#depth <= 0;
    } else if (this.#depth === 1) {
      if (byte === COLON) this.#isValue = true;
      if (byte === COMMA) this.#isValue = false;
    } else if (this.#depth === 0 && !BLANK.has(byte)) {
      this.#isOver = true;
    }
  }

  #endString(): void {
    const text = parseString(this.#text);
    if (!this.#isValue) this.#key = text;
    else if (this.#key === "model") {
      this.name = text;
      this.#isOver = true;
    }
  }
}

function parseString(bytes: readonly number[]): string | undefined {
  try {
    return JSON.parse(`"${decoder.decode(new Uint8Array(bytes))}"`);
  } catch {
    return undefined;
  }
}
