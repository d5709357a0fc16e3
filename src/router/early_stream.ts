/**
 * Streams of a model that is still loading. Their headers are sent at once, since clients and proxies wait longer for
 * events than for headers.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { within } from "../base/wait.ts";
import { KEEP_ALIVE, KEEP_ALIVE_MS } from "../server/http/connection/node_bridge.ts";
import { formatEvent, formatNamedEvent } from "../server/http/sse.ts";
import { formatError } from "./forward.ts";
import type { NamedBody } from "./read_model_name.ts";

const STREAMING_PATHS = /^\/(v1\/)?(chat\/completions|completions|responses|messages)$/;

const encoder = new TextEncoder();

/** Whether a request asks for a stream of events. Only small bodies are examined. */
export function asksForEvents(request: Request, body: NamedBody["body"]): boolean {
  if (!(body instanceof Uint8Array) || !STREAMING_PATHS.test(new URL(request.url).pathname)) {
    return false;
  }
  try {
    return JSON.parse(new TextDecoder().decode(body)).stream === true;
  } catch {
    return false;
  }
}

/**
 * Starts a stream at once, and later passes on the events of `answer`. By then an error can no longer have a status of
 * its own, so it is sent as an event.
 */
export function streamEarly(request: Request, answer: Promise<Response>): Response {
  const opened = open(request, answer);
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      reader ??= await within(opened, KEEP_ALIVE_MS);
      if (reader === undefined) return controller.enqueue(encoder.encode(KEEP_ALIVE));
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      await (await opened).cancel(reason).catch(() => {});
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    },
  });
}

/** Returns the events of a response; for an error, a single event. Never rejects. */
async function open(
  request: Request,
  answer: Promise<Response>,
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  let text: string;
  try {
    const response = await answer;
    if (response.ok) return response.body!.getReader();
    const error = await response.json();
    const isNamed = /\/messages$/.test(new URL(request.url).pathname);
    text = isNamed ? formatNamedEvent(error) : formatEvent(JSON.stringify(error));
  } catch (thrown) {
    text = formatError(request, HearthError.from(thrown));
  }
  return ReadableStream.from([encoder.encode(text)]).getReader();
}
