/**
 * Timings and token counts of the model's work on a request, known when it has ended.
 *
 * @module
 */
import type { GenerationTimes } from "../../engine/loop.ts";
import type { TaskEvent, TokenUsage } from "../../models/task.ts";

/** Times are those of `performance.now()`. */
export interface Work {
  /** When the model got the task. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** Times of models that generate. */
  readonly times?: GenerationTimes | undefined;
  readonly usage?: TokenUsage | undefined;
}

/** Works by the signal of the request. */
const works = new WeakMap<AbortSignal, Work>();

/** Records that the work on this signal's request has ended. */
export function recordWork(
  signal: AbortSignal,
  { startedAtMs, last }: { readonly startedAtMs: number; readonly last: TaskEvent | undefined },
): void {
  const generated = last?.type === "done" && "times" in last ? last : undefined;
  works.set(signal, {
    startedAtMs,
    endedAtMs: performance.now(),
    times: generated?.times,
    usage: generated?.usage,
  });
}

/** The work on this signal's request, if there was any. */
export function getWork(signal: AbortSignal): Work | undefined {
  return works.get(signal);
}
