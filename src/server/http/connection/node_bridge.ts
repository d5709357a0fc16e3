/**
 * Runs an app on `node:http`, one `Request` and `Response` per exchange.
 *
 * Not on `Deno.serve`: up to Deno 2.9 it does not notice a disconnect while the handler runs, unless the whole request
 * arrived in one read. Generation would continue for nobody.
 *
 * @module
 */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { errorAnswer } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { joinBytes } from "../../../base/join_bytes.ts";

/** Replaces the Host of an HTTP/1.0 request without one. */
const NO_HOST = "no-host.invalid";

/** How long a client may continue to send a body after the answer. */
const LINGER_MS = 3_000;

/** A connection that is no longer HTTP's once the answer, of status 101, is sent. */
export interface Upgraded {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  /** What the client has sent after its request. */
  readonly head: Uint8Array;
  /** Of the answer, which whoever takes the connection sends. */
  readonly headers: Headers;
}

/** The context of an exchange besides its request. */
export interface Exchange {
  /** IP address at the other end of the connection. */
  readonly callerAddress: string;
  /** `1.0` or `1.1`. */
  readonly httpVersion: string;
  /** Whether the request's body has arrived, all of it; not if absent. */
  readonly isWhole?: boolean;
  /** Resolves when the answer was sent, or the client disconnected. */
  readonly completed: Promise<void>;
  /**
   * Gives the connection to `take` once the returned answer, of status 101, has passed through the app; absent unless
   * the client asks for a WebSocket.
   */
  readonly upgrade?: (take: (connection: Upgraded) => void) => Response;
}

/** Answers requests; never throws. A request's signal is aborted when its client disconnects before the end. */
export type App = (request: Request, exchange: Exchange) => Promise<Response>;

/**
 * A listener for the `request` event of a server of `node:http`.
 *
 * @param options.streamsAll writes every answer chunk by chunk. Else only events and sound are, and all others are
 * complete, with their length, before they are sent.
 */
export function bridge(
  app: App,
  { streamsAll = false }: { readonly streamsAll?: boolean } = {},
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return async (incoming, outgoing) => {
    const completed = Promise.withResolvers<void>();
    const disconnected = new AbortController();
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) disconnected.abort();
      completed.resolve();
    });
    // `close` reports a client that disconnected while it was written to.
    outgoing.on("error", () => {});
    // A small body sent with the headers is complete by then.
    await undefined;
    const { complete: isWhole } = incoming;
    const request = readRequest(incoming, disconnected.signal);
    if (request === undefined) return refuse(incoming, outgoing);
    const callerAddress = incoming.socket.remoteAddress ?? "";
    const { httpVersion } = incoming;
    const exchange = { callerAddress, httpVersion, isWhole, completed: completed.promise };
    const response = await app(request, exchange);
    try {
      const wire = { incoming, outgoing, disconnected: disconnected.signal };
      await writeResponse(response, wire, { streamsAll });
    } catch (error) {
      log.error("an answer could not be sent", { error });
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500).end();
    }
    if (!incoming.complete) discardRest(incoming);
  };
}

/** `undefined` for what HTTP allows and `Request` does not, such as the method `TRACE`. */
export function readRequest(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = "GET", url = "/", headers } = incoming;
  const hasBody = "transfer-encoding" in headers || Number(headers["content-length"] ?? 0) > 0;
  const takesBody = method !== "GET" && method !== "HEAD";
  const origin = URL.parse(`http://${headers.host ?? NO_HOST}`)?.origin ?? "http://localhost";
  try {
    // Concatenated, not resolved: a path that begins with two slashes must not become another host.
    return new Request(url.startsWith("/") ? `${origin}${url}` : url, {
      method,
      headers: readHeaders(incoming.rawHeaders),
      body: hasBody && takesBody ? readBody(incoming) : null,
      signal,
    });
  } catch {
    return undefined;
  }
}

/** Answers requests without an endpoint: `TRACE` and `OPTIONS *`. */
function refuse({ method, url = "" }: IncomingMessage, outgoing: ServerResponse): void {
  const message = `There is nothing here for ${method} ${url.slice(0, 100)}: this server takes ` +
    "GET, HEAD, POST and OPTIONS of a path.";
  const { status, body } = errorAnswer(url, new HearthError("method_not_allowed", message));
  outgoing.writeHead(status, {
    allow: "GET, HEAD, POST, OPTIONS",
    "content-type": "application/json",
    "x-request-id": crypto.randomUUID(),
  }).end(JSON.stringify(body));
}

function readHeaders(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at]!, raw[at + 1]!);
  return headers;
}

/** The body: whole if it is complete, else streamed with backpressure. */
function readBody(incoming: IncomingMessage): BodyInit {
  return incoming.complete ? readWhole(incoming) : streamBody(incoming);
}

function readWhole(incoming: IncomingMessage): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array[] = [];
  for (let chunk = incoming.read(); chunk !== null; chunk = incoming.read()) chunks.push(chunk);
  return joinBytes(chunks);
}

function streamBody(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let isWanted = false;
  let pass = () => {};
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = () => controller.error(new Error("the client went away"));
      pass = () => {
        if (!isWanted) return;
        // All that has arrived: a client may send each byte as a chunk.
        const chunk: Uint8Array | null = incoming.read(incoming.readableLength);
        if (chunk === null) return;
        isWanted = false;
        controller.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.length));
      };
      incoming.on("readable", pass);
      incoming.once("end", () => {
        incoming.off("close", fail);
        controller.close();
      });
      incoming.once("close", fail);
      incoming.on("error", fail);
    },
    pull() {
      isWanted = true;
      pass();
    },
    cancel: () => stopReading(incoming),
  }, { highWaterMark: 0 });
}

function stopReading(incoming: IncomingMessage): void {
  for (const event of ["readable", "end", "close", "error"]) incoming.removeAllListeners(event);
  incoming.on("error", () => {});
  incoming.pause();
}

/** A streamed body. */
const STREAMED = /^(text\/event-stream|audio\/)/;
/** A body whose length is known and no larger is written in one piece. */
const SMALL_BYTES = 64 * 1024;

interface Wire {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly disconnected: AbortSignal;
}

async function writeResponse(
  response: Response,
  wire: Wire,
  { streamsAll }: { readonly streamsAll: boolean },
): Promise<void> {
  const { status, headers, body } = response;
  const { incoming, outgoing } = wire;
  const isSmall = Number(headers.get("content-length") ?? Infinity) <= SMALL_BYTES;
  const isStreamed = STREAMED.test(headers.get("content-type") ?? "");
  if (body !== null && (isStreamed || streamsAll && !isSmall)) {
    outgoing.writeHead(status, Object.fromEntries(headers));
    return await writeStream(body, wire);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  // An answer to HEAD has lost its body already, and with it the length that GET would have.
  const hasLength = status !== 204 && (incoming.method !== "HEAD" || body !== null);
  outgoing.writeHead(status, {
    ...Object.fromEntries(headers),
    ...(hasLength && { "content-length": bytes.length }),
  });
  outgoing.end(bytes);
}

/** Writes each chunk as soon as it is produced, with backpressure. */
async function writeStream(
  body: ReadableStream<Uint8Array>,
  { outgoing, disconnected }: Wire,
): Promise<void> {
  outgoing.flushHeaders();
  const reader = body.getReader();
  disconnected.addEventListener("abort", () => void reader.cancel().catch(() => {}), {
    once: true,
  });
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      if (!outgoing.write(read.value)) await once(outgoing, "drain", { signal: disconnected });
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  }
}

/** Drains the client's body for a while: a client that is cut off while sending does not read its answer. */
function discardRest(incoming: IncomingMessage): void {
  stopReading(incoming);
  const timer = setTimeout(() => incoming.socket.destroy(), LINGER_MS);
  incoming.once("close", () => clearTimeout(timer));
  incoming.resume();
}
