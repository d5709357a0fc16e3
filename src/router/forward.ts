/**
 * Forwards requests to a model's process: passes on the response chunk by chunk, or the bytes of a WebSocket in both
 * directions.
 *
 * @module
 */
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { HearthError } from "../base/errors.ts";
import { joinBytes } from "../base/bytes.ts";
import { log } from "../base/log.ts";
import { formatHead } from "../server/http/connection/connections.ts";
import type { Exchange, Upgraded } from "../server/http/connection/node_bridge.ts";
import { PROXY_HEADERS } from "../server/http/locality.ts";
import { formatEvent, formatNamedEvent } from "../server/http/sse.ts";
import { makeErrorResponse, toBarePath, type toNestedError } from "../wire/error_body.ts";
import type { ModelAnswer } from "./model_client.ts";
import type { Lease } from "./model_pool.ts";
import type { NamedBody } from "./read_model_name.ts";

/**
 * Request headers that are not forwarded: those of a single connection (RFC 9110, 7.6.1), and those that the router has
 * already evaluated or sets itself.
 */
const DROPPED_HEADERS: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"],
  ...["host", "content-length", "origin", "authorization", "x-api-key", "accept-encoding"],
  ...["x-request-id", ...PROXY_HEADERS],
]);

/** Response headers that are not forwarded, because they belong to a single connection. */
const HOP_HEADERS: readonly string[] = [
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
];

/** Responses up to this size are sent in one write. */
const SMALL_BYTES = 64 * 1024;

const LINE_FEED = 0x0a;

interface ForwardOptions {
  readonly lease: Lease;
  readonly body: NamedBody["body"];
  readonly requestId: string;
  /** The caller's address; `undefined` for local callers, who have more rights. */
  readonly remoteAddress: string | undefined;
  /** Present if the client asks for a WebSocket. */
  readonly upgrade: Exchange["upgrade"] | undefined;
}

/**
 * Forwards a request. If the client disconnects, the process cancels the request too. If the client does not read, the
 * process waits. The lease ends with the response.
 *
 * @throws {HearthError} `inference_failed` when the process ends before the response has begun.
 */
export async function forward(request: Request, options: ForwardOptions): Promise<Response> {
  const { lease } = options;
  try {
    const answer = await sendOn(request, options);
    const { status, headers } = answer;
    for (const name of HOP_HEADERS) headers.delete(name);
    if (status === 101) {
      const onEnd = () => lease[Symbol.dispose]();
      return tunnel(answer, { upgrade: options.upgrade!, onEnd });
    }
    if (answer.hasBody && !isSmall(answer)) {
      return new Response(passOn(answer, request, lease), { status, headers });
    }
    const body = answer.hasBody ? await readWhole(answer) : null;
    lease[Symbol.dispose]();
    return new Response(body, { status, headers });
  } catch (cause) {
    lease[Symbol.dispose]();
    request.signal.throwIfAborted();
    throw reportLoss(lease, cause);
  }
}

/** Sends a request to the process, and waits for the head of the response. */
async function sendOn(request: Request, options: ForwardOptions): Promise<ModelAnswer> {
  const { lease: { address }, body } = options;
  const { pathname, search } = new URL(request.url);
  const declaredBytes = request.headers.get("content-length");
  return await address.client.send({
    method: request.method,
    path: pathname + search,
    headers: chooseHeaders(request.headers, options),
    body,
    bodyBytes: declaredBytes === null ? undefined : Number(declaredBytes),
    signal: request.signal,
  });
}

function chooseHeaders(
  from: Headers,
  { lease: { address }, requestId, remoteAddress, upgrade }: ForwardOptions,
): [name: string, value: string][] {
  const headers = [...from].filter(([name]) => !DROPPED_HEADERS.has(name));
  headers.push(["host", address.host], ["authorization", `Bearer ${address.key}`]);
  headers.push(["x-request-id", requestId]);
  if (remoteAddress !== undefined) headers.push(["x-forwarded-for", remoteAddress]);
  if (upgrade !== undefined) headers.push(["connection", "Upgrade"], ["upgrade", "websocket"]);
  return headers;
}

function isSmall({ headers }: ModelAnswer): boolean {
  return Number(headers.get("content-length") ?? Infinity) <= SMALL_BYTES;
}

async function readWhole(answer: ModelAnswer): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = await answer.read(); chunk !== undefined; chunk = await answer.read()) {
    chunks.push(chunk);
  }
  return chunks.length === 1 ? chunks[0]! : joinBytes(chunks);
}

/**
 * Passes on the body of a response. If the process ends midway, a stream of events ends with an error event, and any
 * other body is cut off.
 */
function passOn(answer: ModelAnswer, request: Request, lease: Lease): ReadableStream<Uint8Array> {
  const isEvents = answer.headers.get("content-type")?.startsWith("text/event-stream");
  let lastByte: number | undefined = LINE_FEED;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const bytes = await answer.read();
        if (bytes !== undefined) {
          lastByte = bytes.at(-1) ?? lastByte;
          return controller.enqueue(bytes);
        }
        controller.close();
      } catch (cause) {
        const error = request.signal.aborted ? undefined : reportLoss(lease, cause);
        if (!isEvents || error === undefined) controller.error(error ?? cause);
        else {
          // A complete event ends with a line break. If the last event was cut off, it is ended here.
          const start = lastByte === LINE_FEED ? "" : "\n\n";
          controller.enqueue(new TextEncoder().encode(start + formatError(request, error)));
          controller.close();
        }
      }
      lease[Symbol.dispose]();
    },
    cancel() {
      answer.cancel();
      lease[Symbol.dispose]();
    },
  }, { highWaterMark: 0 });
}

/** Formats an error as the event that ends a stream, in the format of the API family that the request uses. */
export function formatError({ url }: Request, error: HearthError): string {
  const { pathname } = new URL(url);
  return formatErrorBody(pathname, makeErrorResponse(pathname, error).body);
}

/** Formats the body of an error response as the event that ends a stream. @param path path of the request. */
export function formatErrorBody(path: string, body: unknown): string {
  const bare = toBarePath(path);
  if (bare.startsWith("/messages")) return formatNamedEvent(body as { type: string });
  if (bare.startsWith("/responses")) {
    const { code, message, param = null } = (body as ReturnType<typeof toNestedError>).error;
    return formatNamedEvent({ type: "error", code, message, param });
  }
  return formatEvent(JSON.stringify(body));
}

/** Logs that a model's process ended during a request. @returns the error for the client. */
function reportLoss({ model: { id } }: Lease, cause: unknown): HearthError {
  log.warn("a model's process ended while it worked on a request", {
    model: id,
    reason: cause instanceof Error ? cause.message : String(cause),
  });
  const message = `The process of ${id} ended while working on this request. ` +
    "The next request starts it again.";
  return new HearthError("inference_failed", message);
}

/**
 * Connects the client to the process that accepted the WebSocket. Bytes are passed on in both directions as they
 * arrive, with backpressure.
 *
 * @param answer the process's response, with status 101.
 * @param options.onEnd called when either side has closed its connection.
 */
function tunnel(
  answer: ModelAnswer,
  { upgrade, onEnd }: {
    readonly upgrade: NonNullable<Exchange["upgrade"]>;
    readonly onEnd: () => void;
  },
): Response {
  const response = upgrade((client) => void relay(client, answer).finally(onEnd));
  for (const [name, value] of answer.headers) response.headers.set(name, value);
  return response;
}

async function relay({ socket, head, headers }: Upgraded, answer: ModelAnswer): Promise<void> {
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
