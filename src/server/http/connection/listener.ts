/**
 * Accepts connections one by one, and only while another may be open.
 *
 * `node:http`'s own listener accepts the whole backlog before it emits anything (Deno 2.9). If the file descriptors run
 * out in the meantime, it stops accepting forever, without an error.
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
 * How long idle connections stay open. Clients close theirs sooner, so none sends a request on a closing connection.
 */
const KEEP_ALIVE_MS = 75_000;
/** Timeout for the headers of a request. */
const HEAD_MS = 20_000;
/** How many times within a header timeout the server looks for overdue connections. */
const HEAD_CHECKS = 10;
/**
 * Connections that the system queues until they are accepted. A new connection waits for all connections before it:
 * with 1024 of them sending requests on a busy machine, that took a second. When the queue is full, clients retry after
 * a second, which slows floods down but also delays bursts of honest clients.
 */
const BACKLOG = 256;
/** Wait after a failed accept, in case a descriptor is free by then. */
const RETRY_MS = 50;

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly figures: ConnectionFigures;
  readonly handler: RequestListener;
  /** Handles requests for a WebSocket; if absent, they are handled like all other requests. */
  readonly upgradeHandler?: UpgradeListener | undefined;
  /** Timeout for a request's headers; for the first request, it starts with the connection. 20 s if absent. */
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

  /** The address and port, once it listens. */
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

  /** Stops accepting connections. Resolves when the open ones have closed. */
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
    // The body is asked for once the handler reads it. Without this listener, `node:http` would ask at once, even if
    // the request is then refused.
    server.on("checkContinue", (incoming, outgoing) => {
      server.emit("request", incoming, outgoing);
    });
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
        this.#take(connection).catch((error) => this.#reportFailure(error));
        await this.#connections.room();
        // Accepting a waiting connection does not yield to the event loop, and neither does reading bytes that have
        // arrived.
        await readBudget.take(0);
      } catch (error) {
        if (this.#isClosing) return;
        this.#reportFailure(error as Error);
        await sleep(RETRY_MS);
      }
    }
  }

  /** Hands a connection to `node:http` once it has sent something. */
  async #take(tcp: Deno.TcpConn): Promise<void> {
    const connection = new SilentConnection(tcp, () => this.#connections.remove(connection));
    const isAdmitted = this.#connections.admit(connection);
    if (!isAdmitted) refuse(this.#open(connection), this.#options.maxConnections);
    else if (await connection.speaks()) this.#open(connection);
  }

  #open(connection: SilentConnection): TcpSocket {
    const socket = connection.toSocket(this.#options);
    this.#connections.replace(connection, socket);
    this.#server.emit("connection", socket);
    return socket;
  }

  /**
   * Answers connections that have sent no request in time. `node:http` does so only for connections that it knows, from
   * their first bytes on.
   */
  #endOverdue(headMs: number): void {
    for (const connection of this.#connections.overdue(headMs)) {
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

// Clients that half-close the connection after the request (`shutdown(SHUT_WR)`) and still read the response.

/**
 * Times after which to probe a client that has closed its end. Such a client may be half-closed or gone. Only writing
 * tells the two apart, because the second write to a client that is gone fails. The probes are interim responses (RFC
 * 9110, 15.2), which clients ignore, or comments once a stream of events has begun. Other responses are written without
 * long pauses.
 */
const PROBE_AFTER_MS = [0, 100, 500, 2_000];
/** Time between probes after the last time in `PROBE_AFTER_MS`. */
const PROBE_EVERY_MS = 5_000;
/**
 * How long a half-closed HTTP/1.0 client is kept. It cannot be probed, because HTTP/1.0 has no interim responses. Most
 * such clients are proxies that have hung up.
 */
const BLIND_MS = 1_000;

/** Makes `server` answer half-closed clients, and drop clients that are gone. */
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
      timer = setTimeout(() => probe(round + 1), PROBE_AFTER_MS[round + 1] ?? PROBE_EVERY_MS);
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
