/**
 * Retries with growing pauses.
 *
 * @module
 */
import { HubError } from "./answer.ts";

const MAX_FAILURES = 5;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/** Waits; rejects with the signal's reason when it aborts. */
type Pause = (ms: number, signal: AbortSignal | undefined) => Promise<void>;

/** Options of retrying. */
export interface RetryOptions {
  readonly signal?: AbortSignal | undefined;
  /** Consecutive failures after which to give up; 5 if absent. */
  readonly maxFailures?: number | undefined;
  readonly pause?: Pause | undefined;
}

/** Counts the consecutive failures of one operation. */
export class Retries {
  readonly #options: RetryOptions;
  #numFailures = 0;

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /** Forgets earlier failures after a success. */
  reset(): void {
    this.#numFailures = 0;
  }

  /**
   * Waits before the next attempt: half a second, then one, two and four seconds, with jitter, or as long as the hub
   * asks for.
   *
   * @throws the error itself if it must not be retried, or after too many consecutive failures.
   */
  async waitAfter(error: unknown): Promise<void> {
    const { signal, maxFailures = MAX_FAILURES, pause = sleep } = this.#options;
    signal?.throwIfAborted();
    this.#numFailures++;
    if (!(error instanceof HubError && error.isTransient)) throw error;
    if (this.#numFailures >= maxFailures) throw error;
    const grown = FIRST_PAUSE_MS * 2 ** (this.#numFailures - 1) * (0.75 + Math.random() / 2);
    await pause(Math.min(error.retryAfterMs ?? grown, LONGEST_PAUSE_MS), signal);
  }
}

/**
 * Repeats `act` until it succeeds.
 *
 * @throws its last error.
 */
export async function withRetries<T>(act: () => Promise<T>, options: RetryOptions): Promise<T> {
  const retries = new Retries(options);
  while (true) {
    try {
      return await act();
    } catch (error) {
      await retries.waitAfter(error);
    }
  }
}

/** Waits; rejects with the signal's reason when it aborts. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
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
