/**
 * Waits that end early, yields of busy threads, and averages of durations.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Waits for `ms`. @throws the signal's reason when it is aborted first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = () => {
    clearTimeout(timer);
    reject(signal?.reason);
  };
  const timer = setTimeout(() => {
    signal?.removeEventListener("abort", abort);
    resolve();
  }, ms);
  if (signal?.aborted) abort();
  else signal?.addEventListener("abort", abort, { once: true });
  return promise;
}

/** Waits for `promise`, at most `timeoutMs`. @returns `undefined` if it takes longer. */
export async function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), timeoutMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for `promise`, but only until `signal` is aborted. The work behind the promise continues.
 *
 * @throws the signal's reason, or the promise's rejection.
 */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([promise, left.promise]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** Lets pending messages and due timers run; `setTimeout` would cost a millisecond. */
export function yieldToEvents(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The longest time that a loop may run without handling all pending messages. */
const MAX_BUSY_MS = 100;

/**
 * Yields for a loop that keeps its thread busy.
 *
 * While such a loop yields only with `setImmediate`, Deno's event loop may ignore messages from other threads for up to
 * a second (measured by `test/bench/turns_bench.ts`). So the loop must be idle now and then, for the two milliseconds
 * of a timer.
 */
export class BusyThread {
  readonly #maxBusyMs: number;
  #yieldedAtMs = performance.now();

  /** @param maxBusyMs longest time without an idle moment; 100 if absent. */
  constructor(maxBusyMs = MAX_BUSY_MS) {
    this.#maxBusyMs = maxBusyMs;
  }

  /**
   * Like {@linkcode yieldToEvents}, but lets the thread be idle for a moment if it was last idle more than the maximum
   * time ago.
   */
  async yield(): Promise<void> {
    if (performance.now() - this.#yieldedAtMs < this.#maxBusyMs) return await yieldToEvents();
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#yieldedAtMs = performance.now();
  }
}

/** Weight of the newest duration. */
const NEWEST = 0.3;

/**
 * Updates an average of durations so that one slow step, on a busy machine, changes it little.
 *
 * @param outlier `newest` counts as at most this many times the average.
 */
export function updateAverage(
  before: number | undefined,
  newest: number,
  outlier: number,
): number {
  if (before === undefined) return newest;
  return NEWEST * Math.min(newest, outlier * before) + (1 - NEWEST) * before;
}
