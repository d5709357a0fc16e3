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

/**
 * An answer that writes each of `events` as soon as it comes, as what `format` makes of it; an empty string
 * writes nothing. When the client goes away, `events.return()` is called, also while a `next()` is pending.
 */
export function streamEvents<T>(
  events: TaskEvents<T>,
  format: (event: T) => string,
): Response {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await events.next();
        if (done) return controller.close();
        const text = format(value);
        if (text !== "") return controller.enqueue(encoder.encode(text));
      }
    },
    async cancel() {
      await events.return();
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      // Neither a cache nor a proxy may hold events back, be it to compress them.
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    },
  });
}
