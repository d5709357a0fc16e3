/**
 * Reads a request's body up to the model's name. The rest of the body is not checked here, because the model's server
 * parses the whole body.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { within } from "../base/timing.ts";
import { type BodyLimits, type BodyShare, requireAtMost } from "../server/http/body/body.ts";
import { joinBytes } from "../base/bytes.ts";

/** Bodies up to this size are read completely, and forwarded at once with their length. */
const SMALL_BYTES = 64 * 1024;

/** A request's body, and the model that it names. */
export interface NamedBody {
  /** `undefined` if the body names no model. */
  readonly name: string | undefined;
  /** The whole body: the bytes that were read, then the rest, which is read while it is forwarded. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
}

/**
 * Reads the model's name from JSON or a form. Everything before the name is held in memory, even a large file, within
 * `limits` and the memory budget for all bodies.
 *
 * @param share the body's share of the memory budget.
 * @throws {HearthError} `payload_too_large`, `overloaded`, `request_timeout`.
 */
export async function readModelName(
  request: Request,
  { limits, share, isWhole = false }: {
    readonly limits: BodyLimits;
    readonly share: BodyShare;
    /** Whether the whole body has arrived. */
    readonly isWhole?: boolean | undefined;
  },
): Promise<NamedBody> {
  const { headers } = request;
  const contentType = headers.get("content-type") ?? "";
  const isForm = /^multipart\/form-data\s*(;|$)/i.test(contentType);
  // A form holds a file of up to `maxBytes`, and text fields.
  const maxBytes = limits.maxBytes + (isForm ? limits.maxTextBytes : 0);
  const declaredBytes = Number(headers.get("content-length") ?? Infinity);
  if (Number.isFinite(declaredBytes)) requireAtMost(declaredBytes, maxBytes, "request body");
  const scanner = isForm ? new FormModelName(contentType) : new JsonModelName();
  if (isWhole) {
    // Reading a small body as a stream would take longer than everything else here.
    const bytes = await request.bytes();
    if (bytes.length === 0) return { name: undefined, body: null };
    share.take(bytes.length);
    scanner.push(bytes);
    return { name: scanner.name, body: bytes };
  }
  const { body } = request;
  if (body === null) return { name: undefined, body };
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  let isKnown = false;
  while (!isKnown || declaredBytes <= SMALL_BYTES) {
    const { done, value } = await readChunkInTime(reader, limits);
    if (done) return { name: scanner.name, body: joinBytes(chunks) };
    share.take(value.length);
    requireAtMost(numBytes += value.length, maxBytes, "request body");
    chunks.push(value);
    isKnown ||= scanner.push(value);
  }
  return { name: scanner.name, body: continueBody(chunks, reader) };
}

async function readChunkInTime(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { maxPauseMs }: BodyLimits,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  const read = await within(reader.read(), maxPauseMs);
  if (read !== undefined) return read;
  reader.cancel().catch(() => {});
  throw new HearthError(
    "request_timeout",
    `No bytes of the request body arrived for ${maxPauseMs / 1000} s.`,
  );
}

/** Returns the body from its beginning: `chunks`, then what `reader` yields, one chunk at a time. */
function continueBody(
  chunks: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const held = chunks.shift();
      if (held !== undefined) return controller.enqueue(held);
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

/** Finds the model's name in a request's body. */
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
/** Maximum number of bytes kept of a field's name, or of the model's name. */
const MAX_NAME_BYTES = 4096;

const decoder = new TextDecoder();

/** Finds the top-level `"model"` of a JSON object. */
export class JsonModelName implements NameScanner {
  name: string | undefined;
  #depth = 0;
  #isOver = false;
  #isInString = false;
  #isEscaped = false;
  /** Whether the next string of the outermost object is a field's value, not its name. */
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

/** Maximum number of bytes read of a part's headers, or of the field `model`. */
const MAX_FIELD_LENGTH = 16 * 1024;

const latin1 = new TextDecoder("latin1");

/** Finds the field `model` of a `multipart/form-data` body (RFC 7578). */
export class FormModelName implements NameScanner {
  name: string | undefined;
  /** The line break and boundary that end a part. */
  readonly #end: string;
  /** Text that is not parsed yet, decoded as Latin-1, so that each byte is one character. */
  #text = "\r\n";
  /** What the unparsed text begins with: the headers of a part, the value of `model`, or other content. */
  #state: "content" | "headers" | "field" = "content";
  #isOver = false;

  constructor(contentType: string) {
    const [, quoted, plain] = /boundary=(?:"([^"]*)"|([^\s;]+))/i.exec(contentType) ?? [];
    this.#end = `\r\n--${quoted ?? plain ?? ""}`;
  }

  push(chunk: Uint8Array): boolean {
    this.#text += latin1.decode(chunk);
    while (!this.#isOver && this.#step());
    return this.#isOver;
  }

  /** Reads to the end of a part's headers or content. @returns whether that end has arrived. */
  #step(): boolean {
    if (this.#state === "headers") return this.#readHeaders();
    const at = this.#text.indexOf(this.#end);
    if (at < 0) {
      if (this.#state === "content") this.#text = this.#text.slice(-this.#end.length);
      else this.#isOver = this.#text.length > MAX_FIELD_LENGTH;
      return false;
    }
    if (this.#state === "field") {
      this.name = fromLatin1(this.#text.slice(0, at));
      this.#isOver = true;
    }
    this.#text = this.#text.slice(at + this.#end.length);
    this.#state = "headers";
    return true;
  }

  #readHeaders(): boolean {
    // The last boundary is followed by two dashes, not by headers.
    if (this.#text.startsWith("--")) this.#isOver = true;
    const at = this.#text.indexOf("\r\n\r\n");
    if (at < 0) {
      if (this.#text.length > MAX_FIELD_LENGTH) this.#isOver = true;
      return false;
    }
    const isModel = /^content-disposition:.*;\s*name=("model"|model(?=[\s;]|$))/im
      .test(this.#text.slice(0, at));
    // The line break that ends the headers stays in the text: if the part is empty, the next boundary may begin with it.
    this.#text = this.#text.slice(at + (isModel ? "\r\n\r\n" : "\r\n").length);
    this.#state = isModel ? "field" : "content";
    return true;
  }
}

function fromLatin1(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
}
