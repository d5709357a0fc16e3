/**
 * WebSockets (RFC 6455). A request for a WebSocket passes through the app like all others, so that the same guards
 * apply. After that, the socket is an async sequence of messages. It slows the client down while messages are not read,
 * counts the memory of messages, and notices when the client has vanished.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { EventEmitter } from "node:events";
import { HearthError } from "../../../base/errors.ts";
import { type BodyBudget, BodyPace, type BodyShare } from "../body/body.ts";
import { formatHead } from "./connections.ts";
import { type App, makeRefusal, toRequest, type Upgraded } from "./node_bridge.ts";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/** With this many unread messages, nothing more is read from the connection. */
const MAX_UNREAD = 4;
/** Time between two pings. A client that sends nothing between them has vanished. */
const BEAT_MS = 20_000;
/** How long to wait for a client to confirm that the connection closes. */
const CLOSE_MS = 2_000;

/** Close codes of RFC 6455, section 7.4.1. */
export const CLOSE_CODES = { done: 1000, goingAway: 1001, tryAgainLater: 1013 } as const;

interface MessageSocketOptions {
  /** The sub-protocol to choose if the client offers it. */
  readonly protocol: string;
  readonly maxMessageBytes: number;
  /** Counts the bytes of unread messages. */
  readonly budget: BodyBudget;
  /** Time between pings; 20 s if absent. */
  readonly beatMs?: number | undefined;
}

/** The parts of the `ws` package's socket that are used here; the package has no types. */
interface PlainSocket extends EventEmitter {
  send(text: string, done: () => void): void;
  ping(): void;
  pause(): void;
  resume(): void;
  close(code: number, reason: string): void;
  terminate(): void;
}

interface Message {
  readonly bytes: Uint8Array;
  readonly share: BodyShare;
}

/** The server's end of a WebSocket. Iterate it once; the iteration ends when the connection closes. */
export class MessageSocket implements AsyncIterable<Uint8Array> {
  /** Aborted when the connection has closed. */
  readonly closed: AbortSignal;
  readonly #socket: PlainSocket;
  readonly #budget: BodyBudget;
  readonly #messages: Message[] = [];
  /** The memory share of the message that is arriving. */
  #share: BodyShare;
  #pace = new BodyPace(performance.now());
  /** Whether anything has arrived since the last ping. */
  #isAlive = true;
  #isPaused = false;
  #arrival = Promise.withResolvers<void>();

  /** Answers the handshake and then calls `use`. An invalid handshake gets status 400, and `use` is not called. */
  static async accept(
    { incoming, socket, head, headers }: Upgraded,
    options: MessageSocketOptions,
    use: (messages: MessageSocket) => void,
  ): Promise<void> {
    // Imported on demand: few clients use WebSockets, and without the package the server starts faster.
    const { WebSocketServer } = await import("ws");
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      closeTimeout: CLOSE_MS,
      maxPayload: options.maxMessageBytes,
      handleProtocols: (offered: ReadonlySet<string>) =>
        offered.has(options.protocol) && options.protocol,
    });
    server.on("headers", (lines: string[]) => {
      for (const [name, value] of headers) lines.push(`${name}: ${value}`);
    });
    server.handleUpgrade(incoming, socket, head, (plain: PlainSocket) => {
      const messages = new MessageSocket(plain, options);
      // Bytes must be counted before the package's own listener parses them.
      socket.prependListener("data", ({ length }: Buffer) => messages.#count(length));
      use(messages);
    });
  }

  private constructor(socket: PlainSocket, { budget, beatMs = BEAT_MS }: MessageSocketOptions) {
    this.#socket = socket;
    this.#budget = budget;
    this.#share = budget.open();
    const closed = new AbortController();
    this.closed = closed.signal;
    const timer = setInterval(() => this.#beat(), beatMs);
    socket.on("message", (bytes: Buffer) => this.#receive(bytes));
    socket.on("pong", () => this.#isAlive = true);
    // After a protocol error, the package itself closes the connection with the code of RFC 6455.
    socket.on("error", () => {});
    socket.once("close", () => {
      clearInterval(timer);
      for (const { share } of this.#messages.splice(0)) share[Symbol.dispose]();
      this.#share[Symbol.dispose]();
      closed.abort();
      this.#arrival.resolve();
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    while (!this.closed.aborted) {
      const message = this.#messages.shift();
      if (message === undefined) {
        this.#arrival = Promise.withResolvers();
        this.#isPaused = false;
        this.#socket.resume();
        await this.#arrival.promise;
        continue;
      }
      using _share = message.share;
      yield message.bytes;
    }
  }

  /** Sends a message. Resolves when the message has been written to the connection, or the client is gone. */
  send(text: string): Promise<void> {
    return new Promise((resolve) => this.#socket.send(text, resolve));
  }

  /** Closes the connection with a code and a reason. Messages sent earlier still arrive. */
  close(code: number, reason: string): void {
    this.#socket.close(code, reason);
  }

  #receive(bytes: Uint8Array): void {
    this.#messages.push({ bytes, share: this.#share });
    this.#share = this.#budget.open();
    this.#pace = new BodyPace(performance.now());
    if (this.#messages.length >= MAX_UNREAD) this.#pause();
    this.#arrival.resolve();
  }

  /** Counts bytes as they arrive, so that an incomplete message counts too. */
  #count(numBytes: number): void {
    this.#isAlive = true;
    this.#pace.add(numBytes);
    try {
      this.#share.take(numBytes);
    } catch (error) {
      this.close(CLOSE_CODES.tryAgainLater, HearthError.from(error).message.slice(0, 120));
      this.#pause();
    }
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  /** Drops a client that is silent, or that sends a message too slowly for the memory that the message holds. */
  #beat(): void {
    // While reading is paused, pongs are not read either.
    if (this.#isPaused) return;
    const isSlow = this.#pace.isTooSlow(performance.now(), this.#budget);
    if (!this.#isAlive || isSlow) return this.#socket.terminate();
    this.#isAlive = false;
    this.#socket.ping();
  }
}

/** A listener for the `upgrade` event of a `node:http` server. */
export type UpgradeListener = (
  incoming: IncomingMessage,
  socket: Duplex,
  head: Uint8Array,
) => Promise<void>;

/**
 * Whether a request asks for a WebSocket. Upgrades to other protocols, such as h2c, are ignored: clients that offer
 * them accept plain HTTP too.
 */
export function asksForWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/**
 * Runs `app` for requests that ask for an upgrade. If the app does not accept the upgrade, its response is sent and the
 * connection is closed.
 */
export function bridgeUpgrades(app: App): UpgradeListener {
  return async (incoming, socket, head) => {
    const completed = Promise.withResolvers<void>();
    const disconnected = new AbortController();
    // If a client disconnects during a write, `close` follows.
    socket.on("error", () => {});
    socket.once("close", () => {
      completed.resolve();
      // Deferred: when the request is logged, its signal must not be aborted yet, or it would count as hung up.
      setTimeout(() => disconnected.abort());
    });
    // A request with a body is not served: bytes of the body would be taken for the first bytes of the new protocol.
    const hasBody = "transfer-encoding" in incoming.headers ||
      Number(incoming.headers["content-length"] ?? 0) > 0;
    if (hasBody) return void socket.destroy();
    const request = toRequest(incoming, disconnected.signal);
    let take: ((connection: Upgraded) => void) | undefined;
    const response = request === undefined ? makeRefusal(incoming) : await app(request, {
      callerAddress: incoming.socket.remoteAddress ?? "",
      httpVersion: incoming.httpVersion,
      completed: completed.promise,
      upgrade: (taker) => {
        take = taker;
        return new Response(null, { status: 101 });
      },
    });
    const { headers } = response;
    if (take !== undefined && response.status === 101) take({ incoming, socket, head, headers });
    else socket.end(await formatResponse(response), () => socket.destroy());
  };
}

/** Formats a whole response, after which the connection is closed. */
async function formatResponse(response: Response): Promise<Uint8Array> {
  const { status, headers } = response;
  const body = new Uint8Array(await response.arrayBuffer());
  headers.set("content-length", String(body.length));
  headers.set("connection", "close");
  return Buffer.concat([Buffer.from(formatHead(status, headers)), body]);
}
