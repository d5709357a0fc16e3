/**
 * Deduplicates concurrent work: done once, and cancelled when nobody waits for it any longer.
 *
 * @module
 */
import { untilAborted } from "../../base/until_aborted.ts";

interface Job<Result> {
  readonly result: Promise<Result>;
  readonly abort: AbortController;
  numWanting: number;
}

export class SharedJobs<Result> {
  readonly #jobs = new Map<string, Job<Result>>();

  /**
   * Waits for a job, starting it unless it is running.
   *
   * @param begin does the work; its signal is aborted when all who wanted the result have left.
   * @throws the signal's reason, or what the work throws.
   */
  async join(
    key: string,
    begin: (signal: AbortSignal) => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result> {
    signal.throwIfAborted();
    const job = this.#jobs.get(key) ?? this.#begin(key, begin);
    job.numWanting++;
    try {
      return await untilAborted(job.result, signal);
    } finally {
      if (--job.numWanting === 0) {
        // A later caller starts a new job.
        this.#forget(key, job);
        job.abort.abort();
      }
    }
  }

  #begin(key: string, begin: (signal: AbortSignal) => Promise<Result>): Job<Result> {
    const abort = new AbortController();
    const job: Job<Result> = { result: begin(abort.signal), abort, numWanting: 0 };
    this.#jobs.set(key, job);
    const forget = () => this.#forget(key, job);
    job.result.then(forget, forget);
    return job;
  }

  #forget(key: string, job: Job<Result>): void {
    if (this.#jobs.get(key) === job) this.#jobs.delete(key);
  }
}
