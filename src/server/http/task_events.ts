/**
 * The events of one request, as its answer reads them.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { TaskEvent } from "../../models/task.ts";

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
