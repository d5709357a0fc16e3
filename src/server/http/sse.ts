/**
 * Server-sent events.
 *
 * @module
 */
import type { TaskEvents } from "./task_events.ts";

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
