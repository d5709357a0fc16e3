/** Most bytes of a UTF-8 character. */
const MAX_CHAR_BYTES = 4;

/**
 * Returns the bytes that a token adds to the text; `undefined` if it is not shown. The first token that is shown may
 * lose the space before its word.
 */
export type BytesOfToken = (tokenId: number, isFirst: boolean) => Uint8Array | undefined;

/**
 * Turns the tokens of one completion into text as they arrive, by decoding their concatenated bytes as UTF-8. The bytes
 * of an incomplete character are held back, and invalid bytes become U+FFFD.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const detokenizer = new Detokenizer((byte) => Uint8Array.of(byte));
 * const fragments = [0x68, 0x69, 0xf0, 0x9f, 0x98, 0x80].map((byte) => detokenizer.push(byte));
 * assert.deepEqual(fragments, ["h", "i", "", "", "", "😀"]);
 * assert.equal(detokenizer.flush(), "");
 * ```
 */
export class Detokenizer {
  readonly #getBytes: BytesOfToken;
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Bytes of an incomplete character. */
  #heldBack = new Uint8Array(0);
  #isFirst: boolean;
  #length = 0;

  /** @param options.isFirst whether the completion begins the text. */
  constructor(getBytes: BytesOfToken, { isFirst = false }: { readonly isFirst?: boolean } = {}) {
    this.#getBytes = getBytes;
    this.#isFirst = isFirst;
  }

  /** UTF-16 units of the characters returned so far. */
  get length(): number {
    return this.#length;
  }

  /** Whether bytes are held back. */
  get holdsBack(): boolean {
    return this.#heldBack.length > 0;
  }

  /** Takes the next token. @returns the text that it completes: whole characters, often none. */
  push(tokenId: number): string {
    const bytes = this.#getBytes(tokenId, this.#isFirst);
    if (bytes === undefined) return "";
    this.#isFirst = false;
    const all = new Uint8Array(this.#heldBack.length + bytes.length);
    all.set(this.#heldBack);
    all.set(bytes, this.#heldBack.length);
    const end = all.length - lengthOfIncomplete(all);
    this.#heldBack = all.slice(end);
    return this.#read(all.subarray(0, end));
  }

  /** Ends the text. @returns the text of the bytes that were held back. */
  flush(): string {
    const rest = this.#heldBack;
    this.#heldBack = new Uint8Array(0);
    return this.#read(rest);
  }

  #read(bytes: Uint8Array): string {
    const text = this.#utf8.decode(bytes);
    this.#length += text.length;
    return text;
  }
}

/** Number of bytes at the end that belong to an incomplete character. */
function lengthOfIncomplete(bytes: Uint8Array): number {
  for (let length = 1; length < MAX_CHAR_BYTES && length <= bytes.length; length++) {
    const byte = bytes[bytes.length - length]!;
    const isContinuation = (byte & 0xc0) === 0x80;
    if (isContinuation) continue;
    return length < lengthOfChar(byte) ? length : 0;
  }
  return 0;
}

/** Number of bytes of a character, from its first byte; 1 for a byte that begins no character. */
function lengthOfChar(lead: number): number {
  if (lead < 0xc2 || lead > 0xf4) return 1;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}
