/**
 * Merges the event streams of several model requests into one client request.
 *
 * @module
 */
import type { TaskEvents } from "./task_events.ts";

/** An event and the index of its request. */
interface EventFrom<Event> {
  readonly from: number;
  readonly event: Event;
}

/** Events in the order of arrival. Ending the iteration, or an error event, ends all streams. */
export function mergeEvents<Event extends { readonly type: string }>(
  sources: readonly TaskEvents<Event>[],
): TaskEvents<EventFrom<Event>> {
  const ask = async (from: number) => ({ from, result: await sources[from]!.next() });
  const pending = new Map(sources.map((_, from) => [from, ask(from)]));
  const end = async () => {
    pending.clear();
    await Promise.all(sources.map((source) => source.return()));
    return { done: true as const, value: undefined };
  };
  const merged: TaskEvents<EventFrom<Event>> = {
    async next() {
      while (pending.size > 0) {
        const { from, result } = await Promise.race(pending.values());
        pending.delete(from);
        if (result.done) continue;
        const event = result.value;
        if (event.type === "error") await end();
        else pending.set(from, ask(from));
        return { done: false, value: { from, event } };
      }
      return { done: true, value: undefined };
    },
    return: end,
    [Symbol.asyncIterator]: () => merged,
  };
  return merged;
}
