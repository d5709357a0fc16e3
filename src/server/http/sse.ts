/**
 * Sends a task's events as server-sent events.
 *
 * @module
 */
import { KEEP_ALIVE, KEEP_ALIVE_MS } from "./connection/node_bridge.ts";
import { toNestedError } from "../../wire/error_body.ts";
import { HearthError, type WireError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { within } from "../../base/timing.ts";
import type { TaskEvent } from "../../models/task.ts";

const encoder = new TextEncoder();

/** Formats one event. `data` must not contain line breaks. */
export function formatEvent(data: string): string {
  return `data: ${data}\n\n`;
}

/** Formats the error that ends a stream, as OpenAI's clients expect it. */
export function formatErrorEvent(error: WireError): string {
  return formatEvent(JSON.stringify(toNestedError(HearthError.fromWire(error))));
}

/** Formats one event of a stream whose events have types. */
export function formatNamedEvent(
  event: { readonly type: string } & Readonly<Record<string, unknown>>,
): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

interface StreamOptions {
  /** Id of the request, for the log. */
  readonly requestId: string;
  /** Silence after which a comment is sent. */
  readonly keepAliveMs?: number;
  /**
   * An event without content, written between comments and the next event. Some clients (Dify) read up to a blank line,
   * and ignore all that they have read if it begins with a comment.
   */
  readonly emptyEvent?: string;
}

/**
 * Creates a response that writes each of `events` as soon as it arrives. `format` returns the text to write, or an empty
 * string to write nothing. Error events are also logged. A comment is sent whenever nothing was written for
 * `keepAliveMs`. When the client disconnects, `events.return()` is called, even while a `next()` is pending.
 */
export function streamEvents<Event extends TaskEvent>(
  events: TaskEvents<Event>,
  format: (event: Event) => string,
  { requestId, keepAliveMs = KEEP_ALIVE_MS, emptyEvent = "" }: StreamOptions,
): Response {
  let wasSilent = false;
  let pending: Promise<IteratorResult<Event>> | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const silence = Promise.withResolvers<undefined>();
      const timer = setTimeout(() => silence.resolve(undefined), keepAliveMs);
      try {
        for (;;) {
          pending ??= events.next();
          const result = await Promise.race([pending, silence.promise]);
          if (result === undefined) {
            wasSilent = true;
            return controller.enqueue(encoder.encode(KEEP_ALIVE));
          }
          pending = undefined;
          if (result.done) return controller.close();
          if (result.value.type === "error") logFailure(requestId, result.value.error);
          const text = format(result.value);
          if (text === "") continue;
          const filler = wasSilent ? emptyEvent : "";
          wasSilent = false;
          return controller.enqueue(encoder.encode(filler + text));
        }
      } finally {
        clearTimeout(timer);
      }
    },
    async cancel() {
      await events.return();
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      // Neither caches nor proxies may buffer events, not even to compress them.
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    },
  });
}

/** Events that end with the request, or when `return()` is called, even while a `next()` is pending. */
export type TaskEvents<Event> =
  & AsyncIterable<Event>
  & Required<Pick<AsyncIterator<Event>, "next" | "return">>;

/**
 * Longest wait for admission: proxies give up on a response without headers after a minute, and a worker may be busy
 * for longer.
 */
export const LONGEST_WAIT_MS = 5000;

/**
 * Waits for the first event, which says that the request is admitted. Until then an error can still have its own
 * status.
 *
 * @param maxWaitMs after this time, the events are returned although the worker has not admitted the request.
 *
 * @returns all events, including the first one.
 * @throws {HearthError} the error of an error event that comes first.
 */
export async function waitForAdmission<Event extends TaskEvent>(
  events: TaskEvents<Event>,
  maxWaitMs = LONGEST_WAIT_MS,
): Promise<TaskEvents<Event>> {
  const first = events.next();
  const result = await within(first, maxWaitMs);
  if (result?.value?.type === "error") throw HearthError.fromWire(result.value.error);
  return prepend(first, events);
}

/** Puts the first event back in front of the others. */
export function prepend<Event>(
  first: Promise<IteratorResult<Event>>,
  rest: TaskEvents<Event>,
): TaskEvents<Event> {
  let waiting: typeof first | undefined = first;
  return {
    next: () => {
      const result = waiting ?? rest.next();
      waiting = undefined;
      return result;
    },
    return: () => {
      // After an abort, nobody is left to receive the error.
      waiting?.catch(() => {});
      waiting = undefined;
      return rest.return();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/**
 * Logs that a request's stream ended in an error. The loss of a worker, which ends all streams, has its own log line,
 * so it is only logged at level debug here.
 */
export function logFailure(
  requestId: string,
  { kind, message }: Pick<HearthError, "kind" | "message">,
): void {
  const write = kind === "model_not_loaded" ? log.debug : log.warn;
  write("a stream ended in an error", { requestId, code: kind, reason: message });
}
