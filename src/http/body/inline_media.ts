/**
 * Media within a JSON body, decoded while it arrives. In the JSON a short key takes its place: neither the parser nor
 * the server's thread ever has a string of a hundred megabytes to read, to copy or to decode in one go.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import { Base64Decoder } from "../../media/base64_decoder.ts";

/** Length of a key: a random UUID, which nobody can write into a body beforehand. */
const KEY_CHARS = 36;

const decoder = new TextDecoder();
/** The rest of it may come with the next bytes. */
const UNFINISHED_ESCAPE = /\\(?:u[\da-f]{0,3})?$/i;
/** What base64 may be broken by, and a string in JSON not; other control characters are not base64 either. */
const LINE_BREAKS = ["\n", "\r", "\t", "\f"];

interface OpenMedia {
  readonly key: string;
  readonly base64: Base64Decoder;
  /** What was sent, if it may be text. */
  text: string | undefined;
}

/** The media of one body, by their keys. */
export class InlineMedia {
  readonly #decoded = new Map<string, Uint8Array<ArrayBuffer> | HearthError>();
  /** What may be text, as it was sent. */
  readonly #texts = new Map<string, string>();
  #numTextCharsLeft: number;
  #open: OpenMedia | undefined;
  /** An escape that the last piece ended in. */
  #escape = "";
  #numBytes = 0;

  /** @param maxTextChars most of what may be text that is kept. */
  constructor({ maxTextChars = Infinity } = {}) {
    this.#numTextCharsLeft = maxTextChars;
  }

  /** Of all that were decoded. */
  get numBytes(): number {
    return this.#numBytes;
  }

  get isEmpty(): boolean {
    return this.#decoded.size === 0;
  }

  /**
   * Takes base64 as it stands in a JSON string.
   *
   * @param options.maxBytes most that this string may still decode to.
   * @param options.mayBeText whether it is kept as it is too.
   * @returns the key of the string, if it has begun.
   * @throws {SyntaxError} when it is no part of a JSON string.
   */
  push(
    piece: Uint8Array,
    { maxBytes, mayBeText = false }: { readonly maxBytes: number; readonly mayBeText?: boolean },
  ): string | undefined {
    const isNew = this.#open === undefined;
    this.#open ??= {
      key: crypto.randomUUID(),
      base64: new Base64Decoder({ maxBytes }),
      text: mayBeText ? "" : undefined,
    };
    const text = this.#escape + decoder.decode(piece);
    this.#escape = text.includes("\\") ? UNFINISHED_ESCAPE.exec(text)?.[0] ?? "" : "";
    const end = text.length - this.#escape.length;
    const sent = unescape(end === text.length ? text : text.slice(0, end));
    this.#open.base64.push(sent);
    if (this.#open.text !== undefined) {
      this.#numTextCharsLeft -= sent.length;
      this.#open.text = this.#numTextCharsLeft < 0 ? undefined : this.#open.text + sent;
    }
    return isNew ? this.#open.key : undefined;
  }

  /** The string has ended. @throws {SyntaxError} when it does not end as JSON strings do. */
  end(): void {
    if (this.#open === undefined) return;
    if (this.#escape !== "") throw new SyntaxError("Bad escape in a string");
    const { key, base64, text } = this.#open;
    if (text !== undefined) this.#texts.set(key, text);
    this.#open = undefined;
    try {
      const bytes = base64.finish();
      this.#numBytes += bytes.length;
      this.#decoded.set(key, bytes);
    } catch (error) {
      this.#decoded.set(key, HearthError.from(error));
    }
  }

  /**
   * Hands over what a field's text stands for; once.
   *
   * @returns `undefined` when the text holds no key.
   * @throws {HearthError} `invalid_media` when it was not base64.
   */
  take(text: string): Uint8Array<ArrayBuffer> | undefined {
    const key = text.slice(-KEY_CHARS);
    const found = this.#decoded.get(key);
    this.#decoded.delete(key);
    if (found instanceof HearthError) throw found;
    return found;
  }

  /**
   * The text of a field that holds no base64, as it was sent.
   *
   * @throws {HearthError} `payload_too_large` when it was too long to be kept.
   */
  textOf(text: string): string {
    const sent = this.#texts.get(text);
    if (sent !== undefined || !this.#decoded.has(text)) return sent ?? text;
    throw new HearthError(
      "payload_too_large",
      "The text of a document whose type comes after it is too long; want the type before it.",
    );
  }

  /** The text of a field as it was sent, as far as it was base64: its key replaced by what it stands for. */
  restore(text: string): string {
    const found = this.#decoded.get(text.slice(-KEY_CHARS));
    if (!(found instanceof Uint8Array)) return text;
    return text.slice(0, -KEY_CHARS) + found.toBase64();
  }
}

/** @throws {SyntaxError} */
function unescape(text: string): string {
  if (LINE_BREAKS.some((each) => text.includes(each))) {
    throw new SyntaxError("Bad control character in a string");
  }
  return text.includes("\\") ? JSON.parse(`"${text}"`) : text;
}

/** By the signal of the request. */
const ofRequests = new WeakMap<AbortSignal, InlineMedia>();

/** The media of the body of the request that has this signal. */
export function inlineMediaOf(signal: AbortSignal): InlineMedia | undefined {
  return ofRequests.get(signal);
}

/** Keeps the media of a body until its request is gone. */
export function keepInlineMedia(signal: AbortSignal, media: InlineMedia): void {
  ofRequests.set(signal, media);
}
