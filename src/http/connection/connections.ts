/**
 * The open connections of a server: how many there may be, and which are closed first.
 *
 * @module
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { errorAnswer } from "../../api/error_body.ts";
import { HearthError } from "../../errors.ts";
import { formatAnswer } from "./malformed.ts";
import type { TcpSocket } from "./tcp_socket.ts";

/** Descriptors reserved for other uses: the model's files, threads, libraries, and answers in progress. */
const RESERVED_DESCRIPTORS = 96;

/** Connection counts for `/metrics`. */
export interface ConnectionFigures {
  open: number;
  /** Refused, or closed while idle, because there were too many. */
  refused: number;
  /** Failed accepts, as a rule for lack of a descriptor. */
  failed: number;
}

/** Counts of a server that does not listen yet. */
export function newConnectionFigures(): ConnectionFigures {
  return { open: 0, refused: 0, failed: 0 };
}

/** As many connections as `wanted`, or fewer where the process may not open so many files. */
export function limitConnections(wanted: number, maxFiles = readDescriptorLimit()): number {
  if (maxFiles === undefined) return wanted;
  const reserved = Math.min(RESERVED_DESCRIPTORS, Math.floor(maxFiles / 2));
  return Math.max(1, Math.min(wanted, maxFiles - reserved));
}

/** Most files that this process may have open; `undefined` if unknown. */
function readDescriptorLimit(): number | undefined {
  try {
    const limits = Deno.readTextFileSync("/proc/self/limits");
    const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** The connections of one server. */
export class Connections {
  readonly #max: number;
  readonly #figures: ConnectionFigures;
  readonly #open = new Set<Duplex>();
  /** Without a request so far, the oldest first. */
  readonly #silent = new Set<Duplex>();
  /** With all requests answered, the longest idle first. */
  readonly #idle = new Set<Duplex>();
  #nextClose = Promise.withResolvers<void>();

  constructor(options: { max: number; figures: ConnectionFigures }) {
    this.#max = options.max;
    this.#figures = options.figures;
  }

  /** Counts the connections of `server` from now on. */
  watch(server: Server): void {
    server.on("connection", (socket: Duplex) => this.#admit(socket));
    server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
      const socket = incoming.socket as Duplex as TcpSocket;
      this.#silent.delete(socket);
      this.#idle.delete(socket);
      socket.beginRequest({ isChunked: "transfer-encoding" in incoming.headers });
      outgoing.once("close", () => {
        // The next request may be here before the write of the last answer is known to be done.
        if (socket.endRequest() === 0 && !socket.destroyed) this.#idle.add(socket);
      });
    });
  }

  /** Resolves when another connection may be accepted, and the last had a turn of the event loop to be read. */
  async room(): Promise<void> {
    if (this.#open.size < this.#max) return;
    await new Promise((resolve) => setTimeout(resolve));
    while (this.#open.size > this.#max) await this.#nextClose.promise;
  }

  /** Closes idle connections. Resolves when all have closed. */
  async close(): Promise<void> {
    for (const socket of this.#idle) socket.destroy();
    while (this.#open.size > 0) await this.#nextClose.promise;
  }

  /** Closes all connections at once. */
  destroyAll(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #admit(socket: Duplex): void {
    const isFull = this.#open.size >= this.#max;
    this.#add(socket);
    if (!isFull) return void this.#silent.add(socket);
    this.#figures.refused++;
    // A client that has sent a request is more likely to send another.
    const [victim] = this.#silent.size > 0 ? this.#silent : this.#idle;
    if (victim === undefined) return refuse(socket, this.#max);
    victim.destroy();
    this.#silent.add(socket);
  }

  #add(socket: Duplex): void {
    this.#open.add(socket);
    this.#figures.open = this.#open.size;
    socket.once("close", () => {
      for (const set of [this.#open, this.#silent, this.#idle]) set.delete(socket);
      this.#figures.open = this.#open.size;
      this.#nextClose.resolve();
      this.#nextClose = Promise.withResolvers();
    });
  }
}

function refuse(socket: Duplex, max: number): void {
  const error = new HearthError(
    "overloaded",
    `This server has ${max} connections, as many as it keeps (--max-connections). Try again later.`,
  );
  const { headers } = errorAnswer("", error);
  socket.on("error", () => {});
  socket.end(formatAnswer(error, crypto.randomUUID(), headers), () => socket.destroy());
}
