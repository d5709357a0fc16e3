/**
 * The events of one request, as the answers to it read them.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import type { TaskEvent } from "../models/task.ts";

/** Events that end with the request, or by `return()`, also while a `next()` is pending. */
export type TaskEvents<Event> =
  & AsyncIterable<Event>
  & Required<Pick<AsyncIterator<Event>, "next" | "return">>;

/**
 * Waits for the first event: until it comes, what goes wrong can still be a status of its own.
 *
 * @returns all events, the first among them.
 * @throws {HearthError} the one of an error event that comes first.
 */
export async function untilBegun<Event extends TaskEvent>(
  events: TaskEvents<Event>,
): Promise<TaskEvents<Event>> {
  const first = await events.next();
  if (first.done) throw new Error("A request ended without an event.");
  const { value } = first;
  if (value.type === "error") throw HearthError.fromWire(value.error);
  return withFirst(value, events);
}

/** `rest` with one event in front. */
export function withFirst<Event>(first: Event, rest: TaskEvents<Event>): TaskEvents<Event> {
  let waiting: Event | undefined = first;
  return {
    next: () => {
      const value = waiting;
      waiting = undefined;
      return value === undefined ? rest.next() : Promise.resolve({ done: false, value });
    },
    return: () => {
      waiting = undefined;
      return rest.return();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Notes of a request's stream that it ended in an error, which the client reads as its last event. */
export function noteFailure(requestId: string): (error: HearthError) => void {
  return ({ kind, message }) =>
    log.warn("a stream ended in an error", { requestId, code: kind, reason: message });
}
