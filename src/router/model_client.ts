/**
 * Sends requests to a model's process over HTTP/1.1 connections that are kept open. `fetch` would take a millisecond
 * longer for each request, and would send large bodies without `content-length`.
 *
 * @module
 */
import { joinBytes } from "../base/bytes.ts";
import { type AnswerHead, AnswerReader } from "./answer_reader.ts";

/** Connections that were idle for longer are not reused, because the process closes them after 75 s. */
const MAX_IDLE_MS = 60_000;
/** Maximum number of idle connections that are kept open. */
const MAX_IDLE = 64;

const encoder = new TextEncoder();

interface ModelRequest {
  readonly method: string;
  /** Path with its query. */
  readonly path: string;
  readonly headers: Iterable<readonly [name: string, value: string]>;
  readonly body: Uint8Array | ReadableStream<Uint8Array> | null;
  /** Length of a body that is a stream; unknown if absent. */
  readonly bodyBytes?: number | undefined;
  /** Closes the connection when it is aborted. */
  readonly signal: AbortSignal;
}

/** A response whose head has arrived. */
export interface ModelAnswer extends AnswerHead {
  readonly hasBody: boolean;
  /** Reads the next bytes; `undefined` at the end. @throws {Error} when the process ends first. */
  read(): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Discards the rest of the body. */
  cancel(): void;
  /** After status 101: returns the connection, and the bytes that were already read from it. */
  takeConnection(): { readonly connection: Deno.TcpConn; readonly rest: Uint8Array };
}

interface Channel {
  readonly connection: Deno.TcpConn;
  readonly reader: AnswerReader;
  idleSinceMs: number;
}

/** The connections to one process. */
export class ModelClient {
  readonly #port: number;
  /** Idle connections, most recently used last. */
  readonly #idle: Channel[] = [];
  #isClosed = false;

  constructor(port: number) {
    this.#port = port;
  }

  /**
   * Sends a request and waits for the head of the response.
   *
   * @throws {Error} when the process ends first, or the signal is aborted.
   */
  async send(request: ModelRequest): Promise<ModelAnswer> {
    // A stream that was partly read cannot be sent again.
    const mayRepeat = !(request.body instanceof ReadableStream);
    const kept = mayRepeat ? this.#takeIdle() : undefined;
    if (kept !== undefined) {
      try {
        return await this.#exchange(kept, request);
      } catch (error) {
        // The process may have closed the idle connection.
        if (request.signal.aborted) throw error;
      }
    }
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    connection.setNoDelay();
    const channel = { connection, reader: new AnswerReader(connection), idleSinceMs: 0 };
    return await this.#exchange(channel, request);
  }

  /** Closes idle connections now, and the others as soon as they are idle. */
  close(): void {
    this.#isClosed = true;
    for (const channel of this.#idle.splice(0)) close(channel);
  }

  async #exchange(channel: Channel, request: ModelRequest): Promise<ModelAnswer> {
    const { method, signal } = request;
    const abort = () => close(channel);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const end = () => {
      signal.removeEventListener("abort", abort);
      close(channel);
    };
    let isSent = false;
    // If reading the client's body fails, there is no response to wait for.
    sendRequest(channel.connection, request).then((isWhole) => isSent = isWhole, abort);
    try {
      // The head may arrive before the whole request is sent.
      const head = await channel.reader.readHead(method);
      const finish = () => {
        signal.removeEventListener("abort", abort);
        if (isSent && channel.reader.isIdle) this.#keep(channel);
        else close(channel);
      };
      return this.#makeAnswer(channel, { ...head, finish, end });
    } catch (error) {
      end();
      throw error;
    }
  }

  #makeAnswer(
    { connection, reader }: Channel,
    { status, headers, finish, end }: AnswerHead & {
      /** Called after the body's last byte. */
      readonly finish: () => void;
      /** Called if the body ends before its last byte. */
      readonly end: () => void;
    },
  ): ModelAnswer {
    const hasBody = status !== 101 && !reader.isIdle;
    if (!hasBody && status !== 101) finish();
    return {
      status,
      headers,
      hasBody,
      read: async () => {
        try {
          const bytes = await reader.readBody();
          if (bytes === undefined) finish();
          return bytes;
        } catch (error) {
          end();
          throw error;
        }
      },
      cancel: end,
      takeConnection: () => ({ connection, rest: reader.rest }),
    };
  }

  #takeIdle(): Channel | undefined {
    for (let channel = this.#idle.pop(); channel !== undefined; channel = this.#idle.pop()) {
      if (performance.now() - channel.idleSinceMs < MAX_IDLE_MS) return channel;
      close(channel);
    }
    return undefined;
  }

  #keep(channel: Channel): void {
    if (this.#isClosed) return close(channel);
    channel.idleSinceMs = performance.now();
    this.#idle.push(channel);
    if (this.#idle.length > MAX_IDLE) close(this.#idle.shift()!);
  }
}

/**
 * Sends a request.
 *
 * @returns whether the whole request was sent. There may be a response even if it was not.
 * @throws what the body's stream throws.
 */
async function sendRequest(connection: Deno.TcpConn, request: ModelRequest): Promise<boolean> {
  const { method, path, headers, body, bodyBytes } = request;
  const isChunked = body instanceof ReadableStream && bodyBytes === undefined;
  const length = body instanceof Uint8Array ? body.length : bodyBytes;
  const framing = isChunked
    ? "transfer-encoding: chunked\r\n"
    : body === null
    ? ""
    : `content-length: ${length}\r\n`;
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = encoder.encode(`${method} ${path} HTTP/1.1\r\n${lines}${framing}\r\n`);
  if (!(body instanceof ReadableStream)) {
    return await writeAll(connection, body === null ? head : joinBytes([head, body]));
  }
  const reader = body.getReader();
  let isSent = await writeAll(connection, head);
  while (isSent) {
    const { done, value } = await reader.read();
    if (done) return !isChunked || await writeAll(connection, LAST_CHUNK);
    isSent = await writeAll(connection, isChunked ? makeChunk(value) : value);
  }
  // The process has closed the connection, so the rest of the client's body is not needed.
  reader.cancel().catch(() => {});
  return false;
}

const LAST_CHUNK = encoder.encode("0\r\n\r\n");

function makeChunk(bytes: Uint8Array): Uint8Array {
  const size = encoder.encode(`${bytes.length.toString(16)}\r\n`);
  return joinBytes([size, bytes, encoder.encode("\r\n")]);
}

async function writeAll(connection: Deno.TcpConn, bytes: Uint8Array): Promise<boolean> {
  try {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    return true;
  } catch {
    return false;
  }
}

function close({ connection }: Channel): void {
  try {
    connection.close();
  } catch {
    // The connection is already closed.
  }
}
