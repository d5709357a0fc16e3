/**
 * Reads HTTP/1.1 responses (RFC 9112) from a connection to a model's process. The process runs this program's own
 * server, so its responses are assumed to be well-formed.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { joinBytes } from "../base/bytes.ts";

/** Size of the first read: enough for the head, and for the whole of most responses. */
const FIRST_READ_BYTES = 4 * 1024;
const READ_BYTES = 64 * 1024;
/** Largest head of a response. */
const MAX_HEAD_BYTES = 64 * 1024;

const LINE_END = "\r\n";
const HEAD_END = "\r\n\r\n";
const NOTHING = Buffer.alloc(0);

/** Status and headers of a response. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: Headers;
}

/** How the end of a body is found. */
type Framing =
  | { readonly type: "length"; left: number }
  /** `left` is the number of bytes of the current chunk that are still to come; `undefined` before the first chunk. */
  | { readonly type: "chunks"; left: number | undefined }
  | { readonly type: "close" };

/** Reads one response after another: the head, then the body up to its end. */
export class AnswerReader {
  readonly #connection: Pick<Deno.Conn, "read">;
  /** Bytes that were read from the connection and not returned yet. */
  #rest: Buffer = NOTHING;
  #readBytes = FIRST_READ_BYTES;
  #framing: Framing = { type: "length", left: 0 };
  #hasEnded = false;

  constructor(connection: Pick<Deno.Conn, "read">) {
    this.#connection = connection;
  }

  /** Whether the last response has been read completely, so that another may follow. */
  get isIdle(): boolean {
    const framing = this.#framing;
    return !this.#hasEnded && framing.type === "length" && framing.left === 0 &&
      this.#rest.length === 0;
  }

  /** Bytes that were read after the last head. After an upgrade, they are the first bytes of the new protocol. */
  get rest(): Uint8Array {
    return this.#rest;
  }

  /**
   * Reads the head of the next response, skipping interim responses.
   *
   * @param method the request's method, which decides whether the response has a body.
   * @throws {Error} when the connection ends first.
   */
  async readHead(method: string): Promise<AnswerHead> {
    this.#readBytes = FIRST_READ_BYTES;
    for (;;) {
      const [first = "", ...lines] = (await this.#readTo(HEAD_END)).split(LINE_END);
      const status = Number(first.split(" ")[1]);
      const headers = new Headers();
      for (const line of lines) {
        const colon = line.indexOf(":");
        headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
      }
      if (status < 200 && status !== 101) continue;
      this.#framing = chooseFraming(method, status, headers);
      return { status, headers };
    }
  }

  /**
   * Returns the bytes of the body that have arrived, or waits for the next ones.
   *
   * @returns `undefined` at the end of the body.
   * @throws {Error} when the connection ends first.
   */
  async readBody(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const framing = this.#framing;
    if (framing.type === "chunks") return await this.#readChunks(framing);
    if (framing.type === "length" && framing.left === 0) return undefined;
    if (this.#rest.length === 0 && !await this.#readMore()) {
      if (framing.type === "length") throw cutOffError();
      this.#framing = { type: "length", left: 0 };
      return undefined;
    }
    const length = framing.type === "length" ? framing.left : Infinity;
    const chunk = this.#take(Math.min(length, this.#rest.length));
    if (framing.type === "length") framing.left -= chunk.length;
    return chunk;
  }

  /** Reads all chunks that have arrived, and at least one. */
  async #readChunks(
    framing: Framing & { type: "chunks" },
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    // A line break ends the chunk just read, and another one ends the line with the size of the next chunk.
    const hasNext = () => framing.left === 0 && this.#rest.includes(LINE_END, LINE_END.length);
    while (chunks.length === 0 || hasNext()) {
      if (framing.left === 0) await this.#readTo(LINE_END);
      if (!framing.left) framing.left = parseInt(await this.#readTo(LINE_END), 16);
      if (framing.left === 0) {
        // This server sends no trailers, so only a blank line follows.
        await this.#readTo(LINE_END);
        this.#framing = { type: "length", left: 0 };
        break;
      }
      if (this.#rest.length === 0 && !await this.#readMore()) throw cutOffError();
      const chunk = this.#take(Math.min(framing.left, this.#rest.length));
      chunks.push(chunk);
      framing.left -= chunk.length;
    }
    if (chunks.length === 0) return undefined;
    return chunks.length === 1 ? chunks[0] : joinBytes(chunks);
  }

  /** Reads text up to `end`, and skips `end`. */
  async #readTo(end: string): Promise<string> {
    for (;;) {
      const length = this.#rest.indexOf(end);
      if (length >= 0) {
        const text = this.#rest.toString("latin1", 0, length);
        this.#take(length + end.length);
        return text;
      }
      if (this.#rest.length > MAX_HEAD_BYTES || !await this.#readMore()) throw cutOffError();
    }
  }

  #take(length: number): Uint8Array<ArrayBuffer> {
    const { buffer, byteOffset } = this.#rest;
    this.#rest = this.#rest.subarray(length);
    return new Uint8Array(buffer as ArrayBuffer, byteOffset, length);
  }

  /** Reads more bytes. @returns `false` if the connection has ended. */
  async #readMore(): Promise<boolean> {
    const bytes = Buffer.allocUnsafeSlow(this.#readBytes);
    const count = await this.#connection.read(bytes);
    if (count === null) {
      this.#hasEnded = true;
      return false;
    }
    if (count === bytes.length) this.#readBytes = READ_BYTES;
    const read = bytes.subarray(0, count);
    this.#rest = this.#rest.length === 0 ? read : Buffer.concat([this.#rest, read]);
    return true;
  }
}

function chooseFraming(method: string, status: number, headers: Headers): Framing {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) {
    return { type: "length", left: 0 };
  }
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") {
    return { type: "chunks", left: undefined };
  }
  const length = headers.get("content-length");
  return length === null ? { type: "close" } : { type: "length", left: Number(length) };
}

function cutOffError(): Error {
  return new Error("the connection ended before the end of the response");
}
