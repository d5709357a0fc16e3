/**
 * Requests that turn their connection into a WebSocket. They pass through the app like all others, so that the same
 * guards apply.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import { STATUS_CODES } from "node:http";
import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { type App, readRequest, type Upgraded } from "./node_bridge.ts";

/** A listener for the `upgrade` event of a `node:http` server. */
export type UpgradeListener = (
  incoming: IncomingMessage,
  socket: Duplex,
  head: Uint8Array,
) => Promise<void>;

/**
 * Whether a request asks for a WebSocket. Offers of other protocols, such as h2c, are ignored: clients that make them
 * can do without.
 */
export function asksForWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/** Runs `app` for requests that ask for an upgrade. If it refuses one, its answer is sent and the connection closed. */
export function bridgeUpgrades(app: App): UpgradeListener {
  return async (incoming, socket, head) => {
    const completed = Promise.withResolvers<void>();
    const disconnected = new AbortController();
    // Clients that disconnect during a write are reported by `close`.
    socket.on("error", () => {});
    socket.once("close", () => {
      completed.resolve();
      // Deferred, so that a connection that was closed properly is logged with its own status.
      setTimeout(() => disconnected.abort());
    });
    // The unread rest of a body would be taken for the first bytes of the new protocol.
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

/** Formats a complete response that closes the connection. */
async function formatResponse(response: Response): Promise<Uint8Array> {
  const { status, headers } = response;
  const body = new Uint8Array(await response.arrayBuffer());
  headers.set("content-length", String(body.length));
  headers.set("connection", "close");
  return Buffer.concat([Buffer.from(formatHead(status, headers)), body]);
}

/** Formats the head of a response, including the blank line. */
export function formatHead(status: number, headers: Iterable<readonly [string, string]>): string {
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`;
}
