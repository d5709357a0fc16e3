/**
 * Decodes the media within a JSON body as they arrive. In the JSON, a short key takes the place of each medium. So
 * neither the JSON parser nor the server's thread has to handle a string of a hundred megabytes at once.
 *
 * @module
 */
import { ByteCollector } from "../../../base/bytes.ts";
import { HearthError } from "../../../base/errors.ts";
import { Base64Decoder } from "../../../media/reference.ts";
import { decodeJson } from "./decode_json.ts";

/** Length of a key. A key is a random UUID, so that a client cannot guess it and put it into a body. */
const KEY_CHARS = 36;

/** Base64 is ASCII, so each chunk can be decoded on its own. */
const decoder = new TextDecoder();
const QUOTE = new TextEncoder().encode('"');
/** An incomplete escape at the end of a chunk. The rest may come with the next chunk. */
const UNFINISHED_ESCAPE = /\\(?:u[\da-f]{0,3})?$/i;
const MAX_UNFINISHED_CHARS = 5;
/** White space that base64 may contain and a JSON string may not. All other control characters are invalid in both. */
const WHITE_SPACE = ["\n", "\r", "\t", "\f"];

interface OpenMedia {
  readonly key: string;
  readonly base64: Base64Decoder;
  /** The JSON string as it was sent; absent if it cannot be text, or is too long. */
  text: ByteCollector | undefined;
}

/** The media of one body, by their keys. */
export class InlineMedia {
  readonly #decoded = new Map<string, Uint8Array<ArrayBuffer> | HearthError>();
  /** Strings that may be text, as they were sent. */
  readonly #texts = new Map<string, string>();
  readonly #maxTextBytes: number;
  #numTextBytes = 0;
  #open: OpenMedia | undefined;
  /** The incomplete escape at the end of the last chunk. */
  #escape = "";
  #numBytes = 0;

  /** @param options.maxTextBytes maximum number of bytes kept of all strings that may be text. */
  constructor({ maxTextBytes }: { readonly maxTextBytes: number }) {
    this.#maxTextBytes = maxTextBytes;
  }

  /** Bytes of all decoded media together. */
  get numBytes(): number {
    return this.#numBytes;
  }

  get isEmpty(): boolean {
    return this.#decoded.size === 0;
  }

  /**
   * Takes the next base64 of a JSON string.
   *
   * @param options.maxBytes maximum number of bytes that the rest of the string may decode to.
   * @param options.mayBeText whether to also keep the string as it was sent.
   * @returns the string's key if this is its first chunk; `undefined` for later chunks.
   * @throws {SyntaxError} when the chunk cannot be part of a valid JSON string.
   */
  push(
    chunk: Uint8Array,
    { maxBytes, mayBeText = false }: { readonly maxBytes: number; readonly mayBeText?: boolean },
  ): string | undefined {
    const isNew = this.#open === undefined;
    this.#open ??= {
      key: crypto.randomUUID(),
      base64: new Base64Decoder({ maxBytes }),
      text: mayBeText ? this.#collectText() : undefined,
    };
    const text = this.#escape + decoder.decode(chunk);
    const end = text.length - countUnfinished(text);
    this.#escape = text.slice(end);
    this.#open.base64.push(unescape(end === text.length ? text : text.slice(0, end)));
    this.#keepText(this.#open, chunk);
    return isNew ? this.#open.key : undefined;
  }

  /** Ends the string. @throws {SyntaxError} when the string ends within an escape. */
  end(): void {
    if (this.#open === undefined) return;
    if (this.#escape !== "") throw new SyntaxError("Bad escape in a string");
    const { key, base64, text } = this.#open;
    if (text !== undefined) {
      text.push(QUOTE);
      this.#numTextBytes += text.length;
      this.#texts.set(key, decodeJson(text.finish()) as string);
    }
    this.#open = undefined;
    try {
      const bytes = base64.finish();
      this.#numBytes += bytes.length;
      this.#decoded.set(key, bytes);
    } catch (error) {
      this.#decoded.set(key, HearthError.from(error));
    }
  }

  #collectText(): ByteCollector {
    const text = new ByteCollector({ maxBytes: this.#maxTextBytes });
    text.push(QUOTE);
    return text;
  }

  #keepText(open: OpenMedia, chunk: Uint8Array): void {
    const { text } = open;
    if (text === undefined) return;
    const numBytes = this.#numTextBytes + text.length + chunk.length;
    if (numBytes <= this.#maxTextBytes) text.push(chunk);
    else open.text = undefined;
  }

  /**
   * Returns the bytes that the key at the end of a field stands for, and forgets them.
   *
   * @returns `undefined` if the field does not end with a key.
   * @throws {HearthError} `invalid_media` when the field was not base64.
   */
  take(text: string): Uint8Array<ArrayBuffer> | undefined {
    const key = text.slice(-KEY_CHARS);
    const found = this.#decoded.get(key);
    this.#decoded.delete(key);
    if (found instanceof HearthError) throw found;
    return found;
  }

  /**
   * Returns the text of a field that turned out to hold text, not base64.
   *
   * @param text the field's value, which may be a key.
   * @throws {HearthError} `payload_too_large` when the text was too long to be kept.
   */
  decodeText(text: string): string {
    const sent = this.#texts.get(text);
    if (sent !== undefined || !this.#decoded.has(text)) return sent ?? text;
    throw new HearthError(
      "payload_too_large",
      "The text of a document is too long to come before the document's type: send `type` first.",
    );
  }

  /** Returns a field's value with the key at its end replaced by base64. */
  restore(text: string): string {
    const found = this.#decoded.get(text.slice(-KEY_CHARS));
    if (!(found instanceof Uint8Array)) return text;
    return text.slice(0, -KEY_CHARS) + found.toBase64();
  }
}

/** Returns the length of the incomplete escape at the end of `text`; 0 if there is none. */
function countUnfinished(text: string): number {
  const length = UNFINISHED_ESCAPE.exec(text.slice(-MAX_UNFINISHED_CHARS))?.[0].length ?? 0;
  const at = text.length - length;
  let before = at;
  while (text[before - 1] === "\\") before--;
  // After an odd number of backslashes, a backslash is the second character of an escape, and begins none.
  return (at - before) % 2 === 0 ? length : 0;
}

/** Resolves the escapes of a JSON string. @throws {SyntaxError} when they are invalid. */
function unescape(text: string): string {
  if (WHITE_SPACE.some((each) => text.includes(each))) {
    throw new SyntaxError("Bad control character in a string");
  }
  return text.includes("\\") ? JSON.parse(`"${text}"`) : text;
}

/** The media of each body, by the signal of its request. */
const mediaBySignal = new WeakMap<AbortSignal, InlineMedia>();

/** Returns the media in the body of the request with this signal. */
export function getInlineMedia(signal: AbortSignal): InlineMedia | undefined {
  return mediaBySignal.get(signal);
}

/** Keeps the media of a body as long as the signal of its request exists. */
export function keepInlineMedia(signal: AbortSignal, media: InlineMedia): void {
  mediaBySignal.set(signal, media);
}
