/**
 * Requests that turn their connection into a WebSocket's. They pass through the app as all others do, so that the same
 * guards hold.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import { STATUS_CODES } from "node:http";
import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { type App, readRequest, type Upgraded } from "./node_bridge.ts";

/** A listener for the `upgrade` event of a server of `node:http`. */
export type UpgradeListener = (
  incoming: IncomingMessage,
  socket: Duplex,
  head: Uint8Array,
) => Promise<void>;

/** Whether a request wants a WebSocket. Other protocols, such as h2c, are offered by clients that do without. */
export function asksForWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/** Runs `app` for requests that ask for an upgrade. What it refuses is answered, and the connection closed. */
export function bridgeUpgrades(app: App): UpgradeListener {
  return async (incoming, socket, head) => {
    const completed = Promise.withResolvers<void>();
    const disconnected = new AbortController();
    // `close` reports a client that disconnected while it was written to.
    socket.on("error", () => {});
    socket.once("close", () => {
      completed.resolve();
      // Later, so that a connection that was closed in order is logged with the status that it had.
      setTimeout(() => disconnected.abort());
    });
    // The rest of a body that nobody reads would be taken for the first bytes of the new protocol.
    const hasBody = "transfer-encoding" in incoming.headers ||
      Number(incoming.headers["content-length"] ?? 0) > 0;
    const request = hasBody ? undefined : readRequest(incoming, disconnected.signal);
    if (request === undefined) return void socket.destroy();
    let take: ((connection: Upgraded) => void) | undefined;
    const response = await app(request, {
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

/** A whole answer that closes the connection. */
async function formatResponse(response: Response): Promise<Uint8Array> {
  const { status, headers } = response;
  const body = new Uint8Array(await response.arrayBuffer());
  headers.set("content-length", String(body.length));
  headers.set("connection", "close");
  return Buffer.concat([Buffer.from(formatHead(status, headers)), body]);
}

/** The head of an answer, up to the empty line. */
export function formatHead(status: number, headers: Iterable<readonly [string, string]>): string {
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`;
}
