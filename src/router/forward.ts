/**
 * Sends a request on to a model's process, and its answer back, chunk by chunk.
 *
 * @module
 */
import { anthropicError, nestedError } from "../wire/error_body.ts";
import { HearthError } from "../base/errors.ts";
import { formatEvent, formatNamedEvent } from "../server/http/sse.ts";
import { PROXY_HEADERS } from "../server/http/locality.ts";
import { log } from "../base/log.ts";
import type { Lease } from "./model_pool.ts";
import type { NamedBody } from "./read_model_name.ts";

/** Headers of one connection (RFC 9110, 7.6.1), and those that this router decides. */
const OWN_HEADERS: readonly string[] = [
  ...["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"],
  ...["host", "content-length", "origin", "authorization", "x-api-key", "accept-encoding"],
  ...PROXY_HEADERS,
];

const HOP_HEADERS: readonly string[] = ["connection", "keep-alive", "transfer-encoding"];

const LINE_FEED = 0x0a;

/** A request on its way. */
interface Passage {
  readonly lease: Lease;
  readonly body: NamedBody["body"];
  readonly requestId: string;
  /** Who asks, unless it is a caller on this machine: that may do more. */
  readonly remoteAddress: string | undefined;
}

/**
 * Forwards a request. The client's disconnect ends it at the model too, and a client that does not read slows it down.
 * The lease ends with the answer.
 *
 * @throws {HearthError} `inference_failed` when the process ended before it answered.
 */
export async function forward(request: Request, passage: Passage): Promise<Response> {
  const { lease, body } = passage;
  const { address: { url, client } } = lease;
  const { pathname, search } = new URL(request.url);
  try {
    const answer = await fetch(`${url}${pathname}${search}`, {
      method: request.method,
      headers: chooseHeaders(request.headers, passage),
      body,
      redirect: "manual",
      signal: request.signal,
      client,
    });
    const headers = new Headers(answer.headers);
    for (const name of HOP_HEADERS) headers.delete(name);
    const { status } = answer;
    if (answer.body === null) {
      lease[Symbol.dispose]();
      return new Response(null, { status, headers });
    }
    return new Response(passOn(answer, request, lease), { status, headers });
  } catch (cause) {
    lease[Symbol.dispose]();
    request.signal.throwIfAborted();
    if (cause instanceof HearthError) throw cause;
    throw lostError(lease, cause);
  }
}

function chooseHeaders(from: Headers, { lease, requestId, remoteAddress }: Passage): Headers {
  const headers = new Headers(from);
  for (const name of OWN_HEADERS) headers.delete(name);
  headers.set("authorization", `Bearer ${lease.address.key}`);
  headers.set("x-request-id", requestId);
  headers.set("accept-encoding", "identity");
  if (remoteAddress !== undefined) headers.set("x-forwarded-for", remoteAddress);
  return headers;
}

/** The body of an answer. If the process ends in the middle, events end with an error, and anything else is cut off. */
function passOn(answer: Response, request: Request, lease: Lease): ReadableStream<Uint8Array> {
  const reader = answer.body!.getReader();
  const isEvents = answer.headers.get("content-type")?.startsWith("text/event-stream");
  let lastByte: number | undefined = LINE_FEED;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          lastByte = value.at(-1) ?? lastByte;
          return controller.enqueue(value);
        }
        controller.close();
      } catch (cause) {
        const error = lostError(lease, cause);
        if (!isEvents || request.signal.aborted) controller.error(error);
        else {
          // Events that are sent whole end with a line break; one that was torn ends here.
          const start = lastByte === LINE_FEED ? "" : "\n\n";
          controller.enqueue(new TextEncoder().encode(start + formatError(request, error)));
          controller.close();
        }
      }
      lease[Symbol.dispose]();
    },
    async cancel(reason) {
      lease[Symbol.dispose]();
      await reader.cancel(reason).catch(() => {});
    },
  }, { highWaterMark: 0 });
}

/** The event that ends a stream, in the shape of its API. */
export function formatError(request: Request, error: HearthError): string {
  const path = new URL(request.url).pathname.replace(/^\/v1(?=\/)/, "");
  if (path.startsWith("/messages")) return formatNamedEvent(anthropicError(error));
  if (path.startsWith("/responses")) {
    const { kind: code, message } = error;
    return formatNamedEvent({ type: "error", code, message, param: null });
  }
  return formatEvent(JSON.stringify(nestedError(error)));
}

function lostError({ model: { id } }: Lease, cause: unknown): HearthError {
  log.warn("a model's process was lost while it worked on a request", {
    model: id,
    reason: cause instanceof Error ? cause.message : String(cause),
  });
  const message = `The process of ${id} ended while it worked on this request. ` +
    "The next request starts it again.";
  return new HearthError("inference_failed", message);
}
