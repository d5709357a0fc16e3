/**
 * A task's events, and how they are sent: Server-Sent Events.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { TaskEvent } from "../../models/task.ts";

const encoder = new TextEncoder();

/** One event. `data` has no line break. */
export function formatEvent(data: string): string {
  return `data: ${data}\n\n`;
}

/** One event with its type, for typed streams. */
export function formatNamedEvent(
  event: { readonly type: string } & Readonly<Record<string, unknown>>,
): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** A comment. No blank line follows: some clients take one for the end of an event and find it empty. */
const KEEP_ALIVE = encoder.encode(": keep-alive\n");
/** Well below the minute after which proxies close silent connections. */
const KEEP_ALIVE_MS = 10_000;

/** How a stream is kept open in a silence. */
interface KeepAliveOptions {
  /** Silence until a comment. */
  readonly keepAliveMs?: number;
  /**
   * An event without content, written after comments and before the next event: some clients (Dify) read up to the next
   * blank line and pass over all of it when it begins with a comment.
   */
  readonly emptyEvent?: string;
}

/**
 * An answer that writes each of `events` as soon as it arrives, formatted by `format`; an empty string writes nothing.
 * A comment is sent whenever nothing was written for `keepAliveMs`. When the client goes away, `events.return()` is
 * called, also while a `next()` is pending.
 */
export function streamEvents<T>(
  events: TaskEvents<T>,
  format: (event: T) => string,
  { keepAliveMs = KEEP_ALIVE_MS, emptyEvent = "" }: KeepAliveOptions = {},
): Response {
  let wasSilent = false;
  let pending: Promise<IteratorResult<T>> | undefined;
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
            return controller.enqueue(KEEP_ALIVE);
          }
          pending = undefined;
          if (result.done) return controller.close();
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

/** Events that end with the request, or by `return()`, also while a `next()` is pending. */
export type TaskEvents<Event> =
  & AsyncIterable<Event>
  & Required<Pick<AsyncIterator<Event>, "next" | "return">>;

/** Proxies give up on an answer without headers after a minute; a worker may be busy for longer. */
export const LONGEST_WAIT_MS = 5000;

/**
 * Waits until the request is admitted, as its first event says: until then an error can still have its own status. It
 * does not wait long for a busy worker.
 *
 * @returns all events, the first among them.
 * @throws {HearthError} the one of an error event that comes first.
 */
export async function untilAdmitted<Event extends TaskEvent>(
  events: TaskEvents<Event>,
  maxWaitMs = LONGEST_WAIT_MS,
): Promise<TaskEvents<Event>> {
  const first = events.next();
  const waited = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => waited.resolve(undefined), maxWaitMs);
  const result = await Promise.race([first, waited.promise]).finally(() => clearTimeout(timer));
  if (result?.value?.type === "error") throw HearthError.fromWire(result.value.error);
  return withFirst(first, events);
}

/** `rest` with one result in front. */
export function withFirst<Event>(
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
      // After an abort there is nobody left to tell.
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
 * Logs that a request's stream ended in an error, which the client reads as its last event. The loss of a worker, which
 * ends all of them, has a line of its own.
 */
export function logFailure(
  requestId: string,
): (error: Pick<HearthError, "kind" | "message">) => void {
  return ({ kind, message }) => {
    const write = kind === "model_not_loaded" ? log.debug : log.warn;
    write("a stream ended in an error", { requestId, code: kind, reason: message });
  };
}
