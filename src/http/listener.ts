/**
 * Keeps a port listening: a listener that ran out of file descriptors never accepts again, without an error (Deno 2.9),
 * while the system still queues connections for it. Only a new listener helps.
 *
 * @module
 */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, Server as NetServer } from "node:net";
import { log } from "../log.ts";
import { type ConnectionFigures, Connections } from "./connections.ts";
import { allowHalfClosed } from "./half_closed.ts";
import { answerMalformed } from "./malformed.ts";

/** Longer than clients keep idle connections, so that none sends a request into one that is being closed. */
const KEEP_ALIVE_MS = 75_000;
/** Timeout for the headers of a connection's first request. */
const FIRST_HEAD_MS = 20_000;
const HEAD_CHECK_MS = 2_000;
const PROBE_EVERY_MS = 1_000;
const PROBE_TIMEOUT_MS = 1_000;
/** A timer that is late by this much means that the thread was busy or got no CPU. */
const LATE_MS = 250;
/** Turns of the event loop in which connections pending behind a timer arrive. */
const LAST_TURNS = 3;
/** Failed probes in a row before the listener is replaced, which loses the queued connections. */
const MAX_UNHEARD = 4;

const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** How to listen. */
export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  /** 511 if absent, or what the system allows. */
  readonly backlog?: number | undefined;
  readonly figures: ConnectionFigures;
  readonly handler: RequestListener;
  /** 1 s if absent. */
  readonly probeEveryMs?: number | undefined;
  /** Connects to the server; that of node:net if absent. */
  readonly call?: typeof connect | undefined;
}

export class Listener {
  readonly #options: ListenerOptions;
  readonly #connections: Connections;
  /** The current listener, and its predecessors. */
  readonly #servers = new Set<Server>();
  /** Called for each connection while a probe is pending. */
  #onConnection: (() => void) | undefined;
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

  /** Begins to listen. @throws {Error} with the system's `code` when the address is not available. */
  async open(): Promise<void> {
    const { host, port, backlog } = this.#options;
    await listen(this.#server, { host, port, backlog });
    this.#address = this.#server.address() as AddressInfo;
    this.#probeLater();
  }

  /** Accepts no more connections. Resolves when the open ones have ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    const closed = [...this.#servers].map((server) =>
      new Promise((resolve) => server.close(resolve))
    );
    await Promise.all(closed);
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
    server.on("connection", () => this.#onConnection?.());
    this.#connections.watch(server);
    allowHalfClosed(server);
    server.on("request", this.#options.handler);
    answerMalformed(server);
    return server;
  }

  #probeLater(): void {
    if (this.#isClosing) return;
    this.#timer = setTimeout(() => this.#probe(), this.#options.probeEveryMs ?? PROBE_EVERY_MS);
  }

  async #probe(): Promise<void> {
    const isHeard = await this.#call();
    if (this.#isClosing) return;
    if (isHeard === true) this.#numUnheard = 0;
    if (isHeard === false) this.#numUnheard++;
    if (this.#numUnheard >= MAX_UNHEARD) await this.#listenAgain();
    this.#probeLater();
  }

  /**
   * Connects to its own port.
   *
   * @returns whether the server has accepted a connection; `undefined` if it may not have had the time.
   */
  async #call(): Promise<boolean | undefined> {
    const { address, port } = this.address;
    const heard = Promise.withResolvers<boolean | undefined>();
    const due = performance.now() + PROBE_TIMEOUT_MS;
    const timer = setTimeout(async () => {
      const isLate = performance.now() - due > LATE_MS;
      for (let turn = 0; turn < LAST_TURNS; turn++) await new Promise((next) => setTimeout(next));
      heard.resolve(isLate ? undefined : false);
    }, PROBE_TIMEOUT_MS);
    // Any connection proves it.
    this.#onConnection = () => heard.resolve(true);
    const call = this.#options.call ?? connect;
    const socket = call({ host: WILDCARDS[address] ?? address, port });
    socket.on("error", () => heard.resolve(false));
    try {
      return await heard.promise;
    } finally {
      clearTimeout(timer);
      this.#onConnection = undefined;
      socket.destroy();
    }
  }

  async #listenAgain(): Promise<void> {
    const { address, port } = this.address;
    // node:http's own close() would end idle connections.
    if (this.#server.listening) NetServer.prototype.close.call(this.#server);
    const server = this.#createServer();
    try {
      await listen(server, { host: address, port, backlog: this.#options.backlog });
      this.#server = server;
      this.#numUnheard = 0;
      this.#options.figures.restarts++;
      log.warn("no connection reached the server; it listens again", { port });
    } catch (error) {
      // Retried at the next probe: there may be no free descriptor yet.
      this.#servers.delete(server);
      log.error("the server cannot listen again yet", { port, reason: (error as Error).message });
    }
  }
}

async function listen(
  server: Server,
  { backlog, ...where }: Pick<ListenerOptions, "host" | "port" | "backlog">,
): Promise<void> {
  server.listen({ ...where, ...(backlog !== undefined && { backlog }) });
  await once(server, "listening");
}
