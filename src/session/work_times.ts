/**
 * What is known afterwards of the model's work on a request: where its time went, and its tokens.
 *
 * @module
 */
import type { GenerationTimes } from "../engine/loop.ts";
import type { TaskEvent, TokenUsage } from "../models/task.ts";

/** Times are those of `performance.now()`. */
export interface Work {
  /** When the model got the task. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** Of what generates. */
  readonly times?: GenerationTimes | undefined;
  readonly usage?: TokenUsage | undefined;
}

/** By the signal of its request. */
const works = new WeakMap<AbortSignal, Work>();

/** The work on the request of this signal has ended. */
export function noteWork(
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

/** What is known of the work on the request of this signal, if there was any. */
export function workOf(signal: AbortSignal): Work | undefined {
  return works.get(signal);
}
