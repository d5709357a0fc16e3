/**
 * Accepts connections one at a time, and stops while there are too many.
 *
 * The listener of `node:http` accepts the whole backlog before it emits anything (Deno 2.9). If the file descriptors
 * run out meanwhile, it stops accepting forever, without an error.
 *
 * @module
 */
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { log } from "../../../base/log.ts";
import { sleep } from "../../../base/timing.ts";
import {
  answerMalformed,
  type ConnectionFigures,
  Connections,
  type GetAnswers,
  refuse,
  SilentConnection,
  trackAnswers,
} from "./connections.ts";
import { PROBE } from "./node_bridge.ts";
import { readBudget, type TcpSocket } from "./tcp_socket.ts";
import { asksForWebSocket, type UpgradeListener } from "./message_socket.ts";
import type { Socket } from "node:net";

/**
 * How long idle connections stay open. Clients close idle connections sooner, so that no client sends a request on a
 * connection that the server is closing.
 */
const KEEP_ALIVE_MS = 75_000;
/** Timeout for the headers of a request. */
const HEAD_MS = 20_000;
/** How many times within a header timeout the server looks for overdue connections. */
const HEAD_CHECKS = 10;
/**
 * Maximum number of connections that the system queues until they are accepted. A new connection waits for all that are
 * queued before it: with 1024 queued connections on a busy machine, that took a second. If the queue is full, clients
 * retry after a second, which slows floods down but also delays bursts of honest clients.
 */
const BACKLOG = 256;
/** Time between a failed accept and the next one. A descriptor may be free by then. */
const RETRY_MS = 50;

/** Errors of accepting a connection that its client has reset, as port scans and some health checks do. */
const GONE = [
  Deno.errors.NotConnected,
  Deno.errors.ConnectionAborted,
  Deno.errors.ConnectionReset,
];

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly figures: ConnectionFigures;
  readonly handler: RequestListener;
  /** Handles requests for a WebSocket; if absent, they are handled like all other requests. */
  readonly upgradeHandler?: UpgradeListener | undefined;
  /** Timeout for a request's headers. For the first request, it starts when the connection is accepted. 20 s if absent. */
  readonly headMs?: number | undefined;
  /** How long an idle connection stays open, give or take a second; 75 s if absent. */
  readonly keepAliveMs?: number | undefined;
  /** How long a client may stay connected without reading its response; 30 s if absent. */
  readonly sendMs?: number | undefined;
}

/** A port whose connections are handed to `node:http`. */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #connections: Connections;
  readonly #server: Server;
  #listener: Deno.TcpListener | undefined;
  #headChecks: ReturnType<typeof setInterval> | undefined;
  #isClosing = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { maxConnections: max, figures } = options;
    this.#connections = new Connections({ max, figures });
    this.#server = this.#createServer();
  }

  /** The address and port. Call `open()` first. */
  get address(): Deno.NetAddr {
    return this.#listener!.addr;
  }

  /**
   * Begins to listen.
   *
   * @throws {Deno.errors.AddrInUse} or another of Deno's errors when the address is not available.
   */
  open(): void {
    const { host: hostname, port } = this.#options;
    this.#listener = Deno.listen({ hostname, port, tcpBacklog: BACKLOG });
    // Makes `node:http` start its header timeouts.
    this.#server.emit("listening");
    const { headMs = HEAD_MS } = this.#options;
    this.#headChecks = setInterval(() => this.#endOverdue(headMs), headMs / HEAD_CHECKS);
    void this.#accept(this.#listener);
  }

  /** Stops accepting connections, and closes idle ones. Resolves when all connections have closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#listener?.close();
    this.#server.close();
    await this.#connections.close();
    clearInterval(this.#headChecks);
  }

  closeAllConnections(): void {
    this.#connections.destroyAll();
  }

  #createServer(): Server {
    const { headMs = HEAD_MS, keepAliveMs = KEEP_ALIVE_MS, upgradeHandler } = this.#options;
    const options = {
      // An option of Node's that is missing from its types.
      shouldUpgradeCallback: (incoming: IncomingMessage) =>
        upgradeHandler !== undefined && asksForWebSocket(incoming),
      // Requests without a host are refused by `bridge`, with an error body and an id.
      requireHostHeader: false,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: headMs,
      connectionsCheckingInterval: headMs / HEAD_CHECKS,
    };
    const server = createServer(options);
    // `node:http` keeps connections alive only while it believes that it is listening.
    Object.defineProperty(server, "listening", { get: () => !this.#isClosing });
    this.#connections.watch(server);
    const trackedAnswers = trackAnswers(server);
    allowHalfClosed(server, trackedAnswers);
    server.on("request", this.#options.handler);
    // The client is asked for its body when the handler reads the body. Without these listeners, `node:http` would ask
    // for it at once, even if the request is then refused, and would answer other expectations with 417 and no body.
    for (const expectation of ["checkContinue", "checkExpectation"]) {
      server.on(expectation, (incoming, outgoing) => {
        server.emit("request", incoming, outgoing);
      });
    }
    if (upgradeHandler !== undefined) {
      server.on("upgrade", (incoming, socket, head) => {
        (socket as TcpSocket).leaveHttp();
        upgradeHandler(incoming, socket, head);
      });
    }
    answerMalformed(server, trackedAnswers);
    return server;
  }

  async #accept(listener: Deno.TcpListener): Promise<void> {
    while (!this.#isClosing) {
      try {
        const connection = await listener.accept();
        this.#admit(connection).catch((error) => this.#reportFailure(error));
        await this.#connections.waitForRoom();
      } catch (error) {
        if (this.#isClosing) return;
        if (!GONE.some((each) => error instanceof each)) {
          this.#reportFailure(error as Error);
          await sleep(RETRY_MS);
        }
      }
      // Accepting a queued connection does not yield to the event loop by itself.
      await readBudget.take(0);
    }
  }

  /** Hands a connection to `node:http` when its first bytes have arrived. If there are too many, refuses it. */
  async #admit(tcp: Deno.TcpConn): Promise<void> {
    const connection = new SilentConnection(tcp, () => this.#connections.remove(connection));
    const isAdmitted = this.#connections.admit(connection);
    if (!isAdmitted) refuse(this.#open(connection), this.#options.maxConnections);
    else if (await connection.waitForBytes()) this.#open(connection);
  }

  #open(connection: SilentConnection): TcpSocket {
    const socket = connection.toSocket(this.#options);
    this.#connections.replace(connection, socket);
    this.#server.emit("connection", socket);
    return socket;
  }

  /**
   * Answers connections that have sent no request in time. `node:http` knows only connections that were handed to it,
   * and measures the time from then on.
   */
  #endOverdue(headMs: number): void {
    for (const connection of this.#connections.listOverdue(headMs)) {
      const isSilent = connection instanceof SilentConnection;
      const socket = isSilent ? this.#open(connection) : connection;
      const error = Object.assign(new Error(), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
      this.#server.emit("clientError", error, socket);
    }
  }

  #reportFailure(error: Error): void {
    const { figures } = this.#options;
    figures.failed++;
    log.warn("a connection could not be accepted", { reason: error.message, open: figures.open });
  }
}

// Some clients half-close the connection after the request (`shutdown(SHUT_WR)`), and still read the response.

/**
 * Times between the first probes of a client that has closed its end. Such a client may be half-closed or gone. Only
 * writing tells which, because the second write to a client that is gone fails. A probe is an interim response (RFC
 * 9110, 15.2), which clients ignore, or a comment if a stream of events has begun. All other responses need no probes,
 * because they are written without long pauses.
 */
const PROBE_AFTER_MS = [100, 500, 2_000];
/** Time between all later probes. */
const PROBE_EVERY_MS = 5_000;
/**
 * How long an HTTP/1.0 client that has closed its end stays connected. It cannot be probed, because HTTP/1.0 has no
 * interim responses. Most such clients are proxies that have hung up.
 */
const BLIND_MS = 1_000;

/** Makes `server` answer clients that are half-closed, and drop clients that are gone. */
function allowHalfClosed(server: Server, getAnswers: GetAnswers): void {
  // An option of Node's that is missing from its types.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on("connection", (socket: Socket) => {
    socket.once("end", () => {
      // Without a response in progress there is nothing to wait for.
      if (getAnswers(socket).size === 0) socket.end();
    });
  });
  server.on("request", (incoming, outgoing) => {
    const { socket, httpVersion } = incoming;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const probe = (round: number) => {
      // The rest of an incomplete body can no longer come.
      if (!incoming.complete) return void socket.destroy();
      if (httpVersion === "1.0") {
        timer = setTimeout(() => socket.destroy(), BLIND_MS);
        return;
      }
      if (outgoing.headersSent) outgoing.emit(PROBE);
      else outgoing.writeProcessing();
      timer = setTimeout(() => probe(round + 1), PROBE_AFTER_MS[round] ?? PROBE_EVERY_MS);
    };
    const onEnd = () => probe(0);
    if (socket.readableEnded) onEnd();
    else socket.once("end", onEnd);
    outgoing.once("close", () => {
      clearTimeout(timer);
      socket.off("end", onEnd);
      const isLast = getAnswers(socket).size === 0;
      if (isLast && socket.readableEnded && !socket.destroyed) socket.end();
    });
  });
}
