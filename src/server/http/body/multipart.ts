/**
 * Reads `multipart/form-data` bodies (RFC 7578), and enforces their limits while the bytes arrive. It never holds more
 * than one copy of a file.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { ByteCollector } from "../../../base/bytes.ts";
import { HearthError } from "../../../base/errors.ts";
import { BODY_LIMITS, type BodyLimits, readInTime, requireAtMost, requirePlain } from "./body.ts";

/** The fields and the file of a form. */
interface MultipartForm {
  /** Names and values of the text fields, in the order in which they were sent. A name may occur more than once. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** Bytes of the file; `undefined` if the form has no part with the name that was asked for. */
  readonly file: Uint8Array<ArrayBuffer> | undefined;
}

const MAX_PARTS = 100;
const MAX_HEADER_BYTES = 16 * 1024;
const CRLF = "\r\n";
const SPACE = 0x20;
const TAB = 0x09;

/** Whether the request declares its body as a form. */
export function isMultipart(request: Request): boolean {
  return /^multipart\/form-data\s*(;|$)/i.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads a form.
 *
 * @param options.fileField name of the field that holds the file. Files in other fields are ignored.
 * @throws {HearthError} `unsupported_media_type`, `payload_too_large`, `overloaded`, `request_timeout`; `invalid_value`
 * when the body is not a valid form, or has two files.
 */
export async function readMultipart(
  request: Request,
  { fileField, limits = BODY_LIMITS }: { fileField: string; limits?: BodyLimits | undefined },
): Promise<MultipartForm> {
  requirePlain(request);
  const boundary = parseBoundary(request.headers.get("content-type") ?? "");
  const declared = Number(request.headers.get("content-length") ?? 0);
  requireAtMost(declared - limits.maxTextBytes, limits.maxBytes, "uploaded file");
  const maxBytes = declared > 0 ? declared : limits.maxBytes;
  const parser = new Parser(boundary, { fileField, limits, maxBytes });
  using share = limits.budget.open();
  /** All bytes, including the preamble and the epilogue. */
  let numBytes = 0;
  for await (const chunk of readInTime(request.body, { limits, share })) {
    numBytes += chunk.length;
    requireAtMost(numBytes, limits.maxBytes + limits.maxTextBytes, "form");
    parser.push(chunk);
  }
  return parser.finish();
}

function parseBoundary(contentType: string): string {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  if (boundary !== undefined) return boundary;
  throw malformedError("its Content-Type has no boundary");
}

function malformedError(why: string): HearthError {
  return new HearthError("invalid_value", `The request body is not multipart/form-data: ${why}.`);
}

interface ParserOptions {
  readonly fileField: string;
  readonly limits: BodyLimits;
  /** Maximum number of bytes of the whole body. */
  readonly maxBytes: number;
}

/** The part of the body that the current bytes belong to. */
type State = "preamble" | "delimiter" | "headers" | "content" | "epilogue";

class Parser {
  readonly #options: ParserOptions;
  readonly #delimiter: Buffer;
  readonly #fields: [name: string, value: string][] = [];
  #file: Uint8Array<ArrayBuffer> | undefined;
  #state: State = "preamble";
  /** Unparsed bytes. At first a line break, because the first delimiter of a body need not come after one. */
  #rest: Buffer = Buffer.from(CRLF);
  #part: { readonly name: string; readonly content: ByteCollector | undefined } | undefined;
  #numParts = 0;
  #textBytes = 0;

  constructor(boundary: string, options: ParserOptions) {
    this.#options = options;
    this.#delimiter = Buffer.from(`${CRLF}--${boundary}`);
  }

  push(chunk: Uint8Array): void {
    if (this.#state === "epilogue") return;
    this.#rest = this.#rest.length === 0
      ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
      : Buffer.concat([this.#rest, chunk]);
    while (this.#advance());
  }

  finish(): MultipartForm {
    if (this.#state !== "epilogue") throw malformedError("it ends before its last boundary");
    return { fields: this.#fields, file: this.#file };
  }

  /** Parses the unparsed bytes, up to a change of state. @returns whether there may be more to parse. */
  #advance(): boolean {
    switch (this.#state) {
      case "preamble":
      case "content":
        return this.#readContent();
      case "delimiter":
        return this.#readDelimiter();
      case "headers":
        return this.#readHeaders();
      case "epilogue":
        return false;
    }
  }

  #readContent(): boolean {
    const end = this.#rest.indexOf(this.#delimiter);
    // The unparsed bytes may end within a delimiter.
    const safe = end >= 0 ? end : Math.max(0, this.#rest.length - this.#delimiter.length + 1);
    this.#collect(this.#rest.subarray(0, safe));
    this.#skip(end >= 0 ? end + this.#delimiter.length : safe);
    if (end < 0) return false;
    this.#endPart();
    this.#state = "delimiter";
    return true;
  }

  #readDelimiter(): boolean {
    // There may be white space after the boundary, added by a gateway (RFC 2046).
    let at = 0;
    while (this.#rest[at] === SPACE || this.#rest[at] === TAB) at++;
    this.#skip(at);
    if (this.#rest.length < 2) return false;
    const two = this.#rest.toString("latin1", 0, 2);
    if (two === "--") {
      this.#state = "epilogue";
      return false;
    }
    if (two !== CRLF) {
      throw malformedError("a boundary is followed by something other than a line break");
    }
    // The line break is not skipped: in a part without headers, it is the first of the two that end the headers.
    this.#state = "headers";
    return true;
  }

  #readHeaders(): boolean {
    const end = this.#rest.indexOf(CRLF + CRLF);
    if (end > MAX_HEADER_BYTES || (end < 0 && this.#rest.length > MAX_HEADER_BYTES)) {
      throw malformedError(`a part has more than ${MAX_HEADER_BYTES} bytes of headers`);
    }
    if (end < 0) return false;
    this.#beginPart(this.#rest.toString("utf8", 0, end));
    this.#skip(end + 2 * CRLF.length);
    this.#state = "content";
    return true;
  }

  #beginPart(headers: string): void {
    if (++this.#numParts > MAX_PARTS) throw malformedError(`it has more than ${MAX_PARTS} parts`);
    const disposition = /\r\ncontent-disposition:\s*form-data\s*;?([^\r\n]*)/i.exec(headers)?.[1];
    const name = parseParameter(disposition ?? "", "name");
    if (name === undefined) throw malformedError("a part has no name");
    const { fileField, limits, maxBytes } = this.#options;
    const isFile = name === fileField;
    if (isFile && this.#file !== undefined) {
      throw new HearthError(
        "invalid_value",
        `${name}: want one file, saw a second part with this name. Send one file per request.`,
        { param: name },
      );
    }
    const isKept = isFile || parseParameter(disposition ?? "", "filename") === undefined;
    const content = new ByteCollector({
      maxBytes: Math.min(maxBytes, isFile ? limits.maxBytes : limits.maxTextBytes),
    });
    this.#part = { name, content: isKept ? content : undefined };
  }

  #collect(bytes: Uint8Array): void {
    const part = this.#part;
    if (part === undefined || bytes.length === 0) return;
    const { fileField, limits } = this.#options;
    if (part.name === fileField) {
      requireAtMost(part.content!.length + bytes.length, limits.maxBytes, "uploaded file");
    } else {
      this.#textBytes += bytes.length;
      requireAtMost(this.#textBytes, limits.maxTextBytes, "form, its file aside,");
    }
    part.content?.push(bytes);
  }

  #endPart(): void {
    const part = this.#part;
    this.#part = undefined;
    if (part?.content === undefined) return;
    const bytes = part.content.finish();
    if (part.name === this.#options.fileField) this.#file = bytes;
    else this.#fields.push([part.name, new TextDecoder().decode(bytes)]);
  }

  #skip(numBytes: number): void {
    this.#rest = this.#rest.subarray(numBytes);
  }
}

/** Reads a parameter of a header: `name="file"` or `name=file`. */
function parseParameter(header: string, name: string): string | undefined {
  const match = new RegExp(`(?:^|[;\\s])${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]*))`, "i")
    .exec(header);
  return match?.[1]?.replaceAll(/\\(.)/g, "$1") ?? match?.[2];
}
