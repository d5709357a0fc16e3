/**
 * Runs an app on `node:http`, with one `Request` and `Response` per exchange.
 *
 * It does not use `Deno.serve`, which up to Deno 2.9 notices a disconnect while the handler runs only if the whole
 * request arrived in one read. After a missed disconnect, generation would go on with nobody to read it.
 *
 * @module
 */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { errorAnswer } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { joinBytes } from "../../../base/bytes.ts";

/**
 * Event emitted on a response whose client has closed its sending half. The response then writes something if it can,
 * because only writing shows whether the client is gone.
 */
export const PROBE = "probe";

/** Stands in for the host of an HTTP/1.0 request that names none. */
const NO_HOST = "no-host.invalid";

/** Matches the header `Expect` of a client that sends its body only when asked (RFC 9110, 10.1.1), as `node:http` does. */
const CONTINUE = /\b100-continue\b/i;

/** How long a client may continue to send a body after the response. */
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

/** The context of an exchange besides its request. */
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
   * Gives the connection to `take` once the returned 101 response has passed through the app. Absent unless the client
   * asks for a WebSocket.
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
 * @param options.streamsAll whether to write every response chunk by chunk. Otherwise only events and audio are written
 * chunk by chunk. All other responses are sent once they are complete, with their length.
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
    // After this, a small body that came with the headers is complete.
    await undefined;
    const { complete: isWhole } = incoming;
    const { shouldKeepAlive } = outgoing;
    // A client of HTTP/1.0 knows no interim responses.
    let isAwaitingContinue = !isWhole && incoming.httpVersion !== "1.0" &&
      CONTINUE.test(incoming.headers.expect ?? "");
    // A client that is not asked for its body may still send it, so the connection cannot be reused.
    outgoing.shouldKeepAlive &&= !isAwaitingContinue;
    const request = readRequest(incoming, disconnected.signal, () => {
      if (!isAwaitingContinue) return;
      isAwaitingContinue = false;
      outgoing.shouldKeepAlive = shouldKeepAlive;
      outgoing.writeContinue();
    });
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

/**
 * Converts a request.
 *
 * @param onRead called when the body is first read, unless it is complete already.
 * @returns `undefined` for requests that HTTP allows and `Request` does not, such as the method `TRACE`.
 */
export function readRequest(
  incoming: IncomingMessage,
  signal: AbortSignal,
  onRead = () => {},
): Request | undefined {
  const { method = "GET", url = "/", headers } = incoming;
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

/** Answers requests for which no endpoint can exist: `TRACE` and `OPTIONS *`. */
function refuse({ method, url = "" }: IncomingMessage, outgoing: ServerResponse): void {
  const message =
    `There is no endpoint ${method} ${url.slice(0, 100)}: this server takes GET, HEAD, ` +
    "POST and OPTIONS requests for paths.";
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

/** Returns the body of a request: as bytes if it is complete, or else streamed with backpressure. */
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
        // Takes all bytes that have arrived, since a client may send each byte as a chunk.
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

/** Content types of bodies that are streamed. */
const STREAMED = /^(text\/event-stream|audio\/)/;
const EVENTS = /^text\/event-stream/;
/**
 * A comment in a stream of events. No blank line follows: some clients would take one for the end of an empty event.
 */
export const KEEP_ALIVE = ": keep-alive\n";
/** Silence after which a comment is sent: well below the minute after which proxies close silent connections. */
export const KEEP_ALIVE_MS = 10_000;
const LINE_FEED = 10;
/** Bodies of a known length up to this size are written at once. */
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
    const hasLines = EVENTS.test(headers.get("content-type") ?? "");
    return await writeStream(body, wire, { hasLines });
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  // A response to HEAD has already lost its body, and with it the length that a GET would have.
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
 * @param options.hasLines whether a line with a comment may follow any line of the body.
 */
async function writeStream(
  body: ReadableStream<Uint8Array>,
  { outgoing, disconnected }: Wire,
  { hasLines }: { readonly hasLines: boolean },
): Promise<void> {
  outgoing.flushHeaders();
  let lastByte: number | undefined = LINE_FEED;
  if (hasLines) {
    outgoing.on(PROBE, () => {
      // A router passes on what has arrived, which may be half a line.
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

/** Drains the client's body for a while. A client that is cut off while sending does not read its response. */
function discardRest(incoming: IncomingMessage): void {
  stopReading(incoming);
  const timer = setTimeout(() => incoming.socket.destroy(), LINGER_MS);
  incoming.once("close", () => clearTimeout(timer));
  incoming.resume();
}
