/**
 * Listens on a port, and goes on listening: a listener that ran out of file descriptors accepts nothing ever again,
 * without an error (Deno 2.9), while the system goes on to take connections for it. Only a new one helps.
 *
 * @module
 */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { log } from "../log.ts";
import { type ConnectionFigures, Connections } from "./connections.ts";
import { allowHalfClosed } from "./half_closed.ts";
import { answerMalformed } from "./malformed.ts";

/** Longer than clients keep idle connections, so that none sends a request into one that is being closed. */
const KEEP_ALIVE_MS = 75_000;
/** Until the head of a connection's first request is there. */
const FIRST_HEAD_MS = 20_000;
const HEAD_CHECK_MS = 2_000;
const PROBE_EVERY_MS = 3_000;
const PROBE_TIMEOUT_MS = 2_000;
/** A single probe may be late because the thread was busy. */
const MAX_UNHEARD = 2;

const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** How to listen. */
export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly figures: ConnectionFigures;
  readonly handler: RequestListener;
  /** 3 s if absent. */
  readonly probeEveryMs?: number | undefined;
}

/** See the module. */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #connections: Connections;
  readonly #closed: Promise<unknown>[] = [];
  readonly #servers = new Set<Server>();
  /** Told of the ports that connections come from, while a probe is out. */
  #onConnection: ((remotePort: number | undefined) => void) | undefined;
  #server: Server;
  #address: AddressInfo | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #numUnheard = 0;
  #isClosing = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { maxConnections: max, figures } = options;
    this.#connections = new Connections({ max, figures });
    this.#server = this.#createServer();
  }

  /** Where it listens, once it does. */
  get address(): AddressInfo {
    return this.#address!;
  }

  /** Begins to listen. @throws {Error} with the system's `code` when the address cannot be had. */
  async open(): Promise<void> {
    const { host, port } = this.#options;
    await listen(this.#server, host, port);
    this.#address = this.#server.address() as AddressInfo;
    this.#probeLater();
  }

  /** Takes no more connections. Resolves when those that there are have ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    this.#retire(this.#server);
    await Promise.all(this.#closed);
  }

  /** Ends all connections. */
  closeAllConnections(): void {
    for (const server of this.#servers) server.closeAllConnections();
  }

  #createServer(): Server {
    const server = createServer({
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: FIRST_HEAD_MS,
      connectionsCheckingInterval: HEAD_CHECK_MS,
    });
    this.#servers.add(server);
    server.on("connection", (socket: Socket) => this.#onConnection?.(socket.remotePort));
    this.#connections.watch(server);
    allowHalfClosed(server);
    server.on("request", this.#options.handler);
    answerMalformed(server);
    return server;
  }

  #retire(server: Server): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed.push(promise);
    server.close(() => {
      this.#servers.delete(server);
      resolve();
    });
  }

  #probeLater(): void {
    if (this.#isClosing) return;
    this.#timer = setTimeout(() => this.#probe(), this.#options.probeEveryMs ?? PROBE_EVERY_MS);
  }

  async #probe(): Promise<void> {
    const heard = await this.#call();
    if (this.#isClosing) return;
    this.#numUnheard = heard ? 0 : this.#numUnheard + 1;
    if (this.#numUnheard >= MAX_UNHEARD) await this.#listenAgain();
    this.#probeLater();
  }

  /** Connects to its own port. @returns whether the server heard of it. */
  async #call(): Promise<boolean> {
    const { address, port } = this.address;
    const heard = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => heard.resolve(false), PROBE_TIMEOUT_MS);
    const socket = connect({ host: WILDCARDS[address] ?? address, port });
    // Which side hears of the connection first is not certain.
    const ports = new Set<number | undefined>();
    const compare = () => {
      if (socket.localPort !== undefined && ports.has(socket.localPort)) heard.resolve(true);
    };
    this.#onConnection = (remotePort) => {
      ports.add(remotePort);
      compare();
    };
    socket.once("connect", compare);
    socket.on("error", () => heard.resolve(false));
    try {
      return await heard.promise;
    } finally {
      clearTimeout(timer);
      this.#onConnection = undefined;
      socket.destroy();
    }
  }

  /** The connections that there are live on. */
  async #listenAgain(): Promise<void> {
    const { address, port } = this.address;
    this.#retire(this.#server);
    this.#server = this.#createServer();
    try {
      await listen(this.#server, address, port);
      this.#numUnheard = 0;
      this.#options.figures.restarts++;
      log.error("no connection reached the server; it listens again", { port });
    } catch (error) {
      // Tried again at the next probe: there may be no descriptor for it yet.
      log.error("the server cannot listen again yet", { port, reason: (error as Error).message });
    }
  }
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port });
  await once(server, "listening");
}
