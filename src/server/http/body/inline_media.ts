/**
 * Media within a JSON body, decoded while it arrives. In the JSON a short key takes its place: neither the parser nor
 * the server's thread ever has a string of a hundred megabytes to read, to copy or to decode in one go.
 *
 * @module
 */
import { ByteCollector } from "../../../base/byte_collector.ts";
import { HearthError } from "../../../base/errors.ts";
import { Base64Decoder } from "../../../media/base64_decoder.ts";
import { decodeJson } from "./decode_json.ts";

/** Length of a key: a random UUID, which nobody can write into a body beforehand. */
const KEY_CHARS = 36;

/** A character that pieces cut is no base64 either way. */
const decoder = new TextDecoder();
const QUOTE = new TextEncoder().encode('"');
/** The rest of it may come with the next bytes. */
const UNFINISHED_ESCAPE = /\\(?:u[\da-f]{0,3})?$/i;
const MAX_UNFINISHED_CHARS = 5;
/** What base64 may be broken by, and a string in JSON not; other control characters are not base64 either. */
const LINE_BREAKS = ["\n", "\r", "\t", "\f"];

interface OpenMedia {
  readonly key: string;
  readonly base64: Base64Decoder;
  /** The string in JSON as it was sent, if it may be text. */
  text: ByteCollector | undefined;
}

/** The media of one body, by their keys. */
export class InlineMedia {
  readonly #decoded = new Map<string, Uint8Array<ArrayBuffer> | HearthError>();
  /** What may be text, as it was sent. */
  readonly #texts = new Map<string, string>();
  readonly #maxTextBytes: number;
  #numTextBytes = 0;
  #open: OpenMedia | undefined;
  /** An escape that the last piece ended in. */
  #escape = "";
  #numBytes = 0;

  /** @param options.maxTextBytes most that is kept as it was sent, of all that may be text. */
  constructor({ maxTextBytes }: { readonly maxTextBytes: number }) {
    this.#maxTextBytes = maxTextBytes;
  }

  /** Bytes of all that were decoded. */
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
      text: mayBeText ? this.#collectText() : undefined,
    };
    const text = this.#escape + decoder.decode(piece);
    const end = text.length - countUnfinished(text);
    this.#escape = text.slice(end);
    this.#open.base64.push(unescape(end === text.length ? text : text.slice(0, end)));
    this.#keepText(this.#open, piece);
    return isNew ? this.#open.key : undefined;
  }

  /** The string has ended. @throws {SyntaxError} when it does not end as JSON strings do. */
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

  #keepText(open: OpenMedia, piece: Uint8Array): void {
    const { text } = open;
    if (text === undefined) return;
    const numBytes = this.#numTextBytes + text.length + piece.length;
    if (numBytes <= this.#maxTextBytes) text.push(piece);
    else open.text = undefined;
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
  decodeText(text: string): string {
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

/** The length of the escape that `text` ends within, 0 when it does not. */
function countUnfinished(text: string): number {
  const length = UNFINISHED_ESCAPE.exec(text.slice(-MAX_UNFINISHED_CHARS))?.[0].length ?? 0;
  const at = text.length - length;
  let before = at;
  while (text[before - 1] === "\\") before--;
  // A backslash behind an odd number of others is the second half of an escape.
  return (at - before) % 2 === 0 ? length : 0;
}

/** @throws {SyntaxError} */
function unescape(text: string): string {
  if (LINE_BREAKS.some((each) => text.includes(each))) {
    throw new SyntaxError("Bad control character in a string");
  }
  return text.includes("\\") ? JSON.parse(`"${text}"`) : text;
}

/** Inline media by the signal of the request. */
const ofRequests = new WeakMap<AbortSignal, InlineMedia>();

/** The media of the body of the request that has this signal. */
export function getInlineMedia(signal: AbortSignal): InlineMedia | undefined {
  return ofRequests.get(signal);
}

/** Keeps the media of a body until its request is gone. */
export function keepInlineMedia(signal: AbortSignal, media: InlineMedia): void {
  ofRequests.set(signal, media);
}
