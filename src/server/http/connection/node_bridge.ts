/**
 * Runs an app on `node:http`: converts each request to a `Request`, and writes the app's `Response`.
 *
 * `Deno.serve` is not used. Up to Deno 2.9 it does not notice a client's disconnect while the handler runs, unless the
 * whole request arrived in one read. Then the model would go on generating for nobody.
 *
 * @module
 */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { makeErrorResponse } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { joinBytes } from "../../../base/bytes.ts";

/**
 * Event emitted on a response whose client has closed its sending half. The response then writes something if it can,
 * because only writing shows whether the client is gone.
 */
export const PROBE = "probe";

/** The host of an HTTP/1.0 request that names none. */
const NO_HOST = "no-host.invalid";

/** Matches an `Expect` header as `node:http` does: the client sends its body only when asked (RFC 9110, 10.1.1). */
const CONTINUE = /\b100-continue\b/i;

/** How long a client may go on sending its body after the response. */
const LINGER_MS = 3_000;

/** A connection that leaves HTTP once its 101 response is sent. */
export interface Upgraded {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes that the client sent right after its request. */
  readonly head: Uint8Array;
  /** Headers of the 101 response, which the new owner of the connection sends. */
  readonly headers: Headers;
}

/** What an app gets besides the request. */
export interface Exchange {
  /** IP address of the other end of the connection. */
  readonly callerAddress: string;
  /** HTTP version: `1.0` or `1.1`. */
  readonly httpVersion: string;
  /** Whether the whole body of the request has arrived; false if absent. */
  readonly isWhole?: boolean;
  /** Resolves when the response has been sent, or the client has disconnected. */
  readonly completed: Promise<void>;
  /**
   * Accepts the upgrade to a WebSocket; absent unless the client asks for one. The handler must return the 101 response
   * that `upgrade` returns. Once the app has returned that response, `take` is called with the connection.
   */
  readonly upgrade?: (take: (connection: Upgraded) => void) => Response;
}

/**
 * Answers requests, and never throws. A request's signal is aborted when its client disconnects before the response is
 * complete.
 */
export type App = (request: Request, exchange: Exchange) => Promise<Response>;

/**
 * Creates a listener for the `request` event of a `node:http` server.
 *
 * @param options.streamsAll whether to write all large responses chunk by chunk. Otherwise only events and audio are
 * written chunk by chunk, and all other responses are sent when they are complete, with their length.
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
    // Clients that disconnect during a write are reported by `close`.
    outgoing.on("error", () => {});
    // Lets `node:http` parse all bytes that came with the headers. If the body is among them, it is then complete.
    await undefined;
    const { complete: isWhole } = incoming;
    const { shouldKeepAlive } = outgoing;
    // HTTP/1.0 clients do not know interim responses.
    let isAwaitingContinue = !isWhole && incoming.httpVersion !== "1.0" &&
      CONTINUE.test(incoming.headers.expect ?? "");
    // A client that is not asked for its body may still send it, so the connection cannot be reused.
    outgoing.shouldKeepAlive &&= !isAwaitingContinue;
    const request = toRequest(incoming, disconnected.signal, () => {
      if (!isAwaitingContinue) return;
      isAwaitingContinue = false;
      outgoing.shouldKeepAlive = shouldKeepAlive;
      outgoing.writeContinue();
    });
    const callerAddress = incoming.socket.remoteAddress ?? "";
    const { httpVersion } = incoming;
    const exchange = { callerAddress, httpVersion, isWhole, completed: completed.promise };
    const response = request === undefined ? makeRefusal(incoming) : await app(request, exchange);
    try {
      const wire = { incoming, outgoing, disconnected: disconnected.signal };
      await writeResponse(response, wire, { streamsAll });
    } catch (error) {
      log.error("a response could not be sent", { error });
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500).end();
    }
    if (!incoming.complete) discardRest(incoming);
  };
}

/**
 * Converts a request of `node:http`.
 *
 * @param onRead called before the body is read for the first time, unless it is already complete.
 * @returns `undefined` for requests without a host, and for those that HTTP allows and `Request` does not, such as
 * those with the method `TRACE`.
 */
export function toRequest(
  incoming: IncomingMessage,
  signal: AbortSignal,
  onRead = () => {},
): Request | undefined {
  const { method = "GET", url = "/", headers } = incoming;
  if (lacksHost(incoming)) return undefined;
  const hasBody = "transfer-encoding" in headers || Number(headers["content-length"] ?? 0) > 0;
  const takesBody = method !== "GET" && method !== "HEAD";
  const origin = URL.parse(`http://${headers.host ?? NO_HOST}`)?.origin ?? "http://localhost";
  try {
    // The URL is concatenated, not resolved, so that a path with two leading slashes cannot become another host.
    return new Request(url.startsWith("/") ? `${origin}${url}` : url, {
      method,
      headers: readHeaders(incoming.rawHeaders),
      body: hasBody && takesBody ? readBody(incoming, onRead) : null,
      signal,
    });
  } catch {
    return undefined;
  }
}

/** Whether a request names no host, which only HTTP/1.0 allows (RFC 9112, 3.2). */
function lacksHost({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.host === undefined && httpVersion !== "1.0";
}

/** Answers requests that {@linkcode toRequest} does not convert. */
export function makeRefusal(incoming: IncomingMessage): Response {
  const { method, url = "" } = incoming;
  const allow = "GET, HEAD, POST, DELETE, OPTIONS";
  const error = lacksHost(incoming)
    ? new HearthError("invalid_http", "Host: want this header in an HTTP/1.1 request, saw none.")
    : new HearthError(
      "method_not_allowed",
      `There is no endpoint ${method} ${url.slice(0, 100)}: this server takes ${allow} for paths.`,
    );
  const { status, body } = makeErrorResponse(url, error);
  const headers = { "x-request-id": crypto.randomUUID(), ...(status === 405 && { allow }) };
  return Response.json(body, { status, headers });
}

function readHeaders(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at]!, raw[at + 1]!);
  return headers;
}

/** Returns the body of a request: as bytes if it is complete, or else as a stream with backpressure. */
function readBody(incoming: IncomingMessage, onRead: () => void): BodyInit {
  return incoming.complete ? readWhole(incoming) : streamBody(incoming, onRead);
}

function readWhole(incoming: IncomingMessage): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array[] = [];
  for (let chunk = incoming.read(); chunk !== null; chunk = incoming.read()) chunks.push(chunk);
  return joinBytes(chunks);
}

function streamBody(
  incoming: IncomingMessage,
  onRead: () => void,
): ReadableStream<Uint8Array> {
  let isWanted = false;
  let hasBegun = false;
  let pass = () => {};
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = () => controller.error(new Error("the client went away"));
      pass = () => {
        if (!isWanted) return;
        // Joins all bytes that have arrived, because a client may send each byte as a chunk of its own.
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
      if (!hasBegun) onRead();
      hasBegun = isWanted = true;
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

/** Content types of bodies that are always streamed. */
const STREAMED = /^(text\/event-stream|audio\/)/;
const EVENTS = /^text\/event-stream/;
/**
 * A comment in a stream of events. No blank line follows it: some clients would take that for the end of an empty event.
 */
export const KEEP_ALIVE = ": keep-alive\n";
/** Silence after which a comment is sent. Proxies close connections that are silent for a minute. */
export const KEEP_ALIVE_MS = 10_000;
const LINE_FEED = 10;
/** Except events and audio, bodies of a known length up to this size are not streamed, even with `streamsAll`. */
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
    const isEvents = EVENTS.test(headers.get("content-type") ?? "");
    return await writeStream(body, wire, { isEvents });
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  // Hono has already dropped the body of a response to HEAD, and so the length that a GET would have is unknown.
  const hasLength = status !== 204 && (incoming.method !== "HEAD" || body !== null);
  outgoing.writeHead(status, {
    ...Object.fromEntries(headers),
    ...(hasLength && { "content-length": bytes.length }),
  });
  outgoing.end(bytes);
}

/**
 * Writes each chunk as soon as it is produced, with backpressure.
 *
 * @param options.isEvents whether the body is a stream of events, in which a comment may follow any line.
 */
async function writeStream(
  body: ReadableStream<Uint8Array>,
  { outgoing, disconnected }: Wire,
  { isEvents }: { readonly isEvents: boolean },
): Promise<void> {
  outgoing.flushHeaders();
  let lastByte: number | undefined = LINE_FEED;
  if (isEvents) {
    outgoing.on(PROBE, () => {
      // A router passes on the bytes that have arrived, which may end within a line.
      if (lastByte === LINE_FEED && !outgoing.writableEnded) outgoing.write(KEEP_ALIVE);
    });
  }
  const reader = body.getReader();
  disconnected.addEventListener("abort", () => void reader.cancel().catch(() => {}), {
    once: true,
  });
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      lastByte = read.value.at(-1) ?? lastByte;
      if (!outgoing.write(read.value)) await once(outgoing, "drain", { signal: disconnected });
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  }
}

/** Reads and drops the rest of the body for a while. A client that is cut off while sending would lose the response. */
function discardRest(incoming: IncomingMessage): void {
  stopReading(incoming);
  const timer = setTimeout(() => incoming.socket.destroy(), LINGER_MS);
  incoming.once("close", () => clearTimeout(timer));
  incoming.resume();
}
