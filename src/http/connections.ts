/**
 * The open connections of a server: how many there may be, and which are closed first.
 *
 * @module
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { errorAnswer } from "../api/error_body.ts";
import { HearthError } from "../errors.ts";
import { formatAnswer } from "./malformed.ts";

/** Descriptors reserved for other uses: the model's files, threads, libraries, and answers in progress. */
const RESERVED_DESCRIPTORS = 96;
/** node:http's default backlog. */
const MAX_BACKLOG = 511;

/** Connection counts for `/metrics`. */
export interface ConnectionFigures {
  open: number;
  /** Refused, or closed while idle, because there were too many. */
  refused: number;
  /** Times the listener was replaced because it accepted nothing any more. */
  restarts: number;
}

/** Counts of a server that does not listen yet. */
export function newConnectionFigures(): ConnectionFigures {
  return { open: 0, refused: 0, restarts: 0 };
}

/** How many connections there may be. */
export interface ConnectionLimits {
  readonly maxConnections: number;
  /** The listen backlog: connections that the system keeps until they are accepted. */
  readonly backlog: number;
}

/**
 * As many connections as `wanted`, or fewer where the process may not open so many files: a server that runs out of
 * descriptors accepts nothing any more. It accepts the whole backlog at once, before it can close any, so there must be
 * room for that.
 */
export function limitConnections(
  wanted: number,
  maxFiles = readDescriptorLimit(),
): ConnectionLimits {
  if (maxFiles === undefined) return { maxConnections: wanted, backlog: MAX_BACKLOG };
  const backlog = Math.min(MAX_BACKLOG, Math.ceil(maxFiles / 8));
  const reserved = Math.min(RESERVED_DESCRIPTORS + backlog, Math.floor(maxFiles / 2));
  return { maxConnections: Math.max(1, Math.min(wanted, maxFiles - reserved)), backlog };
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

/** Counts the connections of one or several servers that listen on a port in turn. */
export class Connections {
  readonly #max: number;
  readonly #figures: ConnectionFigures;
  /** Idle ones, the longest idle first. */
  readonly #idle = new Set<Socket>();

  constructor(options: { max: number; figures: ConnectionFigures }) {
    this.#max = options.max;
    this.#figures = options.figures;
  }

  /** Counts the connections of `server` from now on. */
  watch(server: Server): void {
    server.on("connection", (socket: Socket) => this.#admit(socket));
    server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
      const { socket } = incoming;
      this.#idle.delete(socket);
      outgoing.once("close", () => {
        if (!socket.destroyed) this.#idle.add(socket);
      });
    });
  }

  #admit(socket: Socket): void {
    if (this.#figures.open >= this.#max) {
      this.#figures.refused++;
      const [longestIdle] = this.#idle;
      if (longestIdle === undefined) return refuse(socket, this.#max);
      longestIdle.destroy();
    }
    this.#figures.open++;
    this.#idle.add(socket);
    socket.once("close", () => {
      this.#figures.open--;
      this.#idle.delete(socket);
    });
  }
}

function refuse(socket: Socket, max: number): void {
  const error = new HearthError(
    "overloaded",
    `This server has ${max} connections, as many as it keeps (--max-connections). Try again later.`,
  );
  const { headers } = errorAnswer("", error);
  socket.on("error", () => {});
  socket.end(formatAnswer(error, crypto.randomUUID(), headers), () => socket.destroy());
}
