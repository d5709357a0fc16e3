/**
 * The open connections of a server: how many there may be, which of them are closed first, and which responses are
 * unfinished. Also answers input that is not a valid HTTP request.
 *
 * @module
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { makeErrorResponse } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { readBudget, TcpSocket, type TcpSocketOptions } from "./tcp_socket.ts";
import { Buffer } from "node:buffer";
import { log } from "../../../base/log.ts";
import process from "node:process";

/** Descriptors reserved for other uses: the model's files, threads, libraries, and requests in progress. */
const RESERVED_DESCRIPTORS = 96;

/** Connection counts for `/metrics`. */
export interface ConnectionFigures {
  open: number;
  /** Connections refused, or closed while idle, because there were too many. */
  refused: number;
  /** Failed accepts, usually for lack of a file descriptor. */
  failed: number;
}

/** Creates the counts of a server that has had no connection yet. */
export function newConnectionFigures(): ConnectionFigures {
  return { open: 0, refused: 0, failed: 0 };
}

/** Returns how many connections to allow: `wanted`, or fewer if the process may not open enough files. */
export function limitConnections(wanted: number, maxFiles = readDescriptorLimit()): number {
  if (maxFiles === undefined) return wanted;
  const reserved = Math.min(RESERVED_DESCRIPTORS, Math.floor(maxFiles / 2));
  return Math.max(1, Math.min(wanted, maxFiles - reserved));
}

/** Reads the maximum number of files that this process may have open; `undefined` if unknown. */
function readDescriptorLimit(): number | undefined {
  try {
    const limits = Deno.readTextFileSync("/proc/self/limits");
    const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

type Connection = SilentConnection | TcpSocket;

/** The connections of one server. */
export class Connections {
  readonly #max: number;
  readonly #figures: ConnectionFigures;
  readonly #open = new Set<Connection>();
  /** Connections that have sent no request yet, oldest first, with the time when each was accepted. */
  readonly #withoutRequest = new Map<Connection, number>();
  /** Connections whose requests have all been answered, longest idle first. */
  readonly #idle = new Set<Connection>();
  #nextClose = Promise.withResolvers<void>();

  constructor(options: { max: number; figures: ConnectionFigures }) {
    this.#max = options.max;
    this.#figures = options.figures;
  }

  /** Starts tracking which connections of `server` have requests in progress. */
  watch(server: Server): void {
    server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
      const socket = incoming.socket as Duplex as TcpSocket;
      this.#withoutRequest.delete(socket);
      this.#idle.delete(socket);
      socket.beginRequest({ isChunked: "transfer-encoding" in incoming.headers });
      outgoing.once("close", () => {
        // The next request may have arrived before this event.
        if (socket.endRequest() === 0 && !socket.destroyed) this.#idle.add(socket);
      });
    });
    server.on("upgrade", (_incoming: IncomingMessage, socket: Duplex) => {
      // An upgraded connection stays in use until it closes.
      this.#withoutRequest.delete(socket as TcpSocket);
      this.#idle.delete(socket as TcpSocket);
    });
  }

  /**
   * Resolves when another connection may be accepted. At the limit it first yields to the event loop, so that the newest
   * connection can be read before another one takes its place.
   */
  async waitForRoom(): Promise<void> {
    if (this.#open.size < this.#max) return;
    await new Promise((resolve) => setTimeout(resolve));
    while (this.#open.size > this.#max) await this.#nextClose.promise;
  }

  /** Closes idle connections. Resolves when all have closed. */
  async close(): Promise<void> {
    for (const socket of this.#idle) socket.destroy();
    while (this.#open.size > 0) await this.#nextClose.promise;
  }

  destroyAll(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /**
   * Adds a new connection. At the limit, closes the connection that has waited longest for its first request, or else
   * the one that has been idle longest.
   *
   * @returns whether the new connection may stay. If not, the caller refuses it.
   */
  admit(connection: Connection): boolean {
    const isFull = this.#open.size >= this.#max;
    this.#open.add(connection);
    this.#figures.open = this.#open.size;
    if (isFull) {
      this.#figures.refused++;
      // Clients that have sent a request before are more likely to send another.
      const victims = this.#withoutRequest.size > 0 ? this.#withoutRequest : this.#idle;
      const victim = victims.keys().next().value;
      if (victim === undefined) return false;
      victim.destroy();
    }
    this.#withoutRequest.set(connection, performance.now());
    return true;
  }

  /** Replaces a connection with the socket it has become. */
  replace(connection: SilentConnection, socket: TcpSocket): void {
    this.#open.delete(connection);
    this.#open.add(socket);
    const acceptedMs = this.#withoutRequest.get(connection);
    this.#withoutRequest.delete(connection);
    if (acceptedMs !== undefined) this.#withoutRequest.set(socket, acceptedMs);
    socket.once("close", () => this.remove(socket));
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    for (const each of [this.#open, this.#withoutRequest, this.#idle]) each.delete(connection);
    this.#figures.open = this.#open.size;
    this.#nextClose.resolve();
    this.#nextClose = Promise.withResolvers();
  }

  /** Lists connections that were accepted at least `ms` ago and have sent no request yet. */
  listOverdue(ms: number): Connection[] {
    const latestMs = performance.now() - ms;
    return [...this.#withoutRequest].flatMap(([each, at]) => at <= latestMs ? [each] : []);
  }
}

/** Tells a client that there are too many connections, and closes its connection. */
export function refuse(socket: Duplex, max: number): void {
  const error = new HearthError(
    "overloaded",
    `This server already has ${max} connections, the most that it allows (--max-connections). Try again later.`,
  );
  const { headers } = makeErrorResponse("", error);
  socket.on("error", () => {});
  socket.end(formatAnswer(error, crypto.randomUUID(), headers), () => socket.destroy());
}

/** Size of the first read. It holds several small requests, and is small because there may be many new connections. */
const FIRST_READ_BYTES = 1024;

/**
 * A connection before its first bytes. Many connections never send any: those of scanners, of floods, and of clients
 * that connect in advance. A pending read takes at most half the memory of a socket under `node:http`. When the client
 * closes its end, the connection closes at once.
 */
export class SilentConnection {
  readonly #connection: Deno.TcpConn;
  readonly #first: Promise<Uint8Array | null>;
  readonly #onClose: () => void;
  #isOpen = true;

  /** @param onClose called when the connection closes before it has become a socket. */
  constructor(connection: Deno.TcpConn, onClose: () => void) {
    this.#connection = connection;
    this.#onClose = onClose;
    this.#first = this.#read();
  }

  /**
   * Waits for the first bytes, and closes the connection if there are none.
   *
   * @returns whether the connection is still open and may become a socket.
   */
  async waitForBytes(): Promise<boolean> {
    try {
      if (await this.#first === null) this.destroy();
    } catch {
      this.destroy();
    }
    return this.#isOpen;
  }

  /** Turns the connection into a socket, which continues with the first read. */
  toSocket(options: Omit<TcpSocketOptions, "first">): TcpSocket {
    this.#isOpen = false;
    return new TcpSocket(this.#connection, { ...options, first: this.#first });
  }

  /** Closes the connection, unless it has become a socket. */
  destroy(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#connection.close();
    this.#onClose();
  }

  async #read(): Promise<Uint8Array | null> {
    const bytes = Buffer.allocUnsafeSlow(FIRST_READ_BYTES);
    const count = await this.#connection.read(bytes);
    if (count === null) return null;
    const wait = readBudget.take(count);
    if (wait !== undefined) await wait;
    return bytes.subarray(0, count);
  }
}

/** Makes `server` answer malformed requests with the usual error body. */
export function answerMalformed(server: Server, getAnswers: GetAnswers): void {
  server.on("clientError", (cause: Error & { readonly code?: string }, socket) => {
    // An error response cannot follow a response that has begun, and after a reset nobody would read it.
    const hasBegun = [...getAnswers(socket)].some(({ headersSent }) => headersSent);
    if (hasBegun || !socket.writable || cause.code === "ECONNRESET") return void socket.destroy();
    const error = toHearthError(cause);
    const requestId = crypto.randomUUID();
    log.info("could not parse a request", { requestId, code: error.kind });
    socket.end(formatAnswer(error, requestId), () => socket.destroy());
  });
}

/** Converts an error of Node's parser, by its code. */
function toHearthError({ code, message }: Error & { readonly code?: string }): HearthError {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HearthError(
        "headers_too_large",
        "The path and headers of a request may have at most 16 KiB together.",
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new HearthError("request_timeout", "The request's headers did not arrive in time.");
    default: {
      const detail = message.replaceAll(/Parse Error(: )?/g, "");
      return new HearthError(
        "invalid_http",
        `This is not an HTTP/1.1 request, and this port does not serve HTTPS${
          detail && `: ${detail}`
        }.`,
      );
    }
  }
}

/** Formats an error as a whole HTTP response, after which the connection is closed. */
function formatAnswer(
  error: HearthError,
  requestId: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const { status, body } = makeErrorResponse("", error);
  const text = JSON.stringify(body);
  const head = formatHead(status, [
    ["content-type", "application/json"],
    ["content-length", `${new TextEncoder().encode(text).length}`],
    ["x-request-id", requestId],
    ...Object.entries(headers),
    ["connection", "close"],
  ]);
  return head + text;
}

/** Formats the head of a response, including the blank line. */
export function formatHead(status: number, headers: Iterable<readonly [string, string]>): string {
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`;
}

/**
 * Returns the unfinished responses of a connection. There may be several, because a client may send more requests
 * before the first one is answered.
 */
export type GetAnswers = (socket: Duplex) => ReadonlySet<ServerResponse>;

const NONE: ReadonlySet<ServerResponse> = new Set();

/**
 * Tracks the unfinished responses of `server`, and closes them when their connection closes. Call it before adding other
 * request listeners, so that these find the current request's response among them.
 */
export function trackAnswers(server: Server): GetAnswers {
  const answers = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("connection", (socket: Duplex) => {
    const own = new Set<ServerResponse>();
    answers.set(socket, own);
    // `node:http` itself closes only the response that is being written, not the responses queued behind it.
    socket.once("close", () => process.nextTick(closeAll, own));
  });
  server.on("request", ({ socket }, outgoing) => {
    const own = answers.get(socket)!;
    own.add(outgoing);
    outgoing.once("close", () => own.delete(outgoing));
  });
  return (socket) => answers.get(socket) ?? NONE;
}

function closeAll(answers: ReadonlySet<ServerResponse>): void {
  for (const answer of answers) {
    answer.destroy();
    answer.emit("close");
  }
}
