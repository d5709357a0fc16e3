/** Tokens that stay in the window when it slides: more than one character or one contraction is ever made of. */
const KEPT_TOKENS = 8;
/** The window slides when it holds this many. */
const WINDOW_TOKENS = 2 * KEPT_TOKENS;

/**
 * Text at the end that the next tokens may still change. Either the bytes of a character that is not complete: three at
 * most, and a decoder writes one U+FFFD for all of them or one for each. Or the start of what is contracted under
 * `clean_up_tokenization_spaces`: a space before `.?!,`, ` 's` and its likes, ` n't`, ` n ' t`, ` ' `.
 */
const UNSETTLED = /\uFFFD{1,3}$| {1,2}(?:n(?: ?'| )?|'[rv]?)?$|'$/;

/**
 * Turns the tokens of one completion into text as they come, so that the fragments together are the text of the whole.
 *
 * A token has no text of its own: characters are split over tokens, and spaces depend on what stands before. So the
 * last few tokens are decoded together, and new text that can no longer change is returned. The window of tokens slides
 * by count, whatever their text, and resumes by the length of what is still held back: so the work per token is bounded
 * even when the model never completes a character.
 *
 * The one text known to come out otherwise: more than {@linkcode KEPT_TOKENS} lone quotation marks in a row under
 * `clean_up_tokenization_spaces`, which removes their spaces in pairs, counted from the first.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const utf8 = new TextDecoder();
 * const detokenizer = new Detokenizer((bytes) => utf8.decode(Uint8Array.from(bytes)));
 * const fragments = [0x68, 0x69, 0xf0, 0x9f, 0x98, 0x80].map((byte) => detokenizer.push(byte));
 * assert.deepEqual(fragments, ["h", "i", "", "", "", "😀"]);
 * assert.equal(detokenizer.flush(), "");
 * ```
 */
export class Detokenizer {
  readonly #decode: (tokenIds: number[]) => string;
  readonly #window: number[] = [];
  /** What the window decodes to. */
  #text = "";
  /** How much of `#text` was returned, in UTF-16 units. */
  #numEmitted = 0;
  /** How much was returned of what has left the window. */
  #numBefore = 0;

  /** @param decode the text of some tokens, at least one; tokens that it skips, such as special ones, are allowed. */
  constructor(decode: (tokenIds: number[]) => string) {
    this.#decode = decode;
  }

  /** UTF-16 units of the whole characters so far, those held back included. */
  get length(): number {
    const numWhole = this.#text.replace(/\uFFFD{1,3}$/, "").length;
    return this.#numBefore + Math.max(this.#numEmitted, numWhole);
  }

  /** Whether text is held back. */
  get holdsBack(): boolean {
    return this.#numEmitted < this.#text.length;
  }

  /** @returns the text completed by `tokenId`: whole characters, often none. */
  push(tokenId: number): string {
    this.#window.push(tokenId);
    const text = this.#decode(this.#window);
    // Tokens without text are not kept: a window of nothing else would take the next word for the first.
    if (text === this.#text && this.#decode([tokenId, tokenId]) === "") {
      this.#window.pop();
      return "";
    }
    this.#text = text;
    const fragment = this.#emit(UNSETTLED.exec(text)?.index ?? text.length);
    if (this.#window.length >= WINDOW_TOKENS) this.#slide();
    return fragment;
  }

  /** Ends the text. @returns what was held back. */
  flush(): string {
    return this.#emit(this.#text.length);
  }

  #emit(end: number): string {
    if (end <= this.#numEmitted) return "";
    const fragment = this.#text.slice(this.#numEmitted, end);
    this.#numEmitted = end;
    return fragment;
  }

  #slide(): void {
    const numHeldBack = this.#text.length - this.#numEmitted;
    this.#window.splice(0, this.#window.length - KEPT_TOKENS);
    this.#text = this.#decode(this.#window);
    this.#numBefore += this.#numEmitted - (this.#text.length - numHeldBack);
    this.#numEmitted = this.#text.length - numHeldBack;
  }
}
