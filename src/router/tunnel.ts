/**
 * A WebSocket through the router: bytes pass both ways as they arrive, and no faster than they are read.
 *
 * @module
 */
import { once } from "node:events";
import type { Duplex } from "node:stream";
import type { Exchange, Upgraded } from "../server/http/connection/node_bridge.ts";
import { formatHead } from "../server/http/connection/upgrades.ts";
import type { ModelAnswer } from "./model_client.ts";

/**
 * Connects the client to the process that accepted the WebSocket.
 *
 * @param answer of status 101.
 * @param onEnd called when either side has ended.
 */
export function tunnel(
  answer: ModelAnswer,
  { upgrade, onEnd }: {
    readonly upgrade: NonNullable<Exchange["upgrade"]>;
    readonly onEnd: () => void;
  },
): Response {
  const response = upgrade((client) => void join(client, answer).finally(onEnd));
  for (const [name, value] of answer.headers) response.headers.set(name, value);
  return response;
}

async function join({ socket, head, headers }: Upgraded, answer: ModelAnswer): Promise<void> {
  const { connection, rest } = answer.takeConnection();
  (socket as Duplex & { setTimeout(ms: number): void }).setTimeout(0);
  const shown = [...headers, ["connection", "Upgrade"], ["upgrade", "websocket"]] as const;
  socket.write(formatHead(101, shown));
  socket.write(rest);
  try {
    await Promise.race([sendUp(socket, connection, head), sendDown(connection, socket)]);
  } catch {
    // One side has disconnected.
  }
  socket.end(() => socket.destroy());
  answer.cancel();
}

async function sendUp(socket: Duplex, connection: Deno.TcpConn, head: Uint8Array): Promise<void> {
  await writeAll(connection, head);
  for await (const bytes of socket) await writeAll(connection, bytes);
}

async function sendDown(connection: Deno.TcpConn, socket: Duplex): Promise<void> {
  for await (const bytes of connection.readable) {
    if (!socket.write(bytes)) await once(socket, "drain");
  }
}

async function writeAll(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}
