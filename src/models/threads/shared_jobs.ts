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

/** Values by key. The one added last is kept whatever its size. */
export class ByteBudgetCache<Value> {
  readonly #maxBytes: number;
  readonly #drop: (value: Value) => void;
  /** The least recently used first. */
  readonly #entries = new Map<string, { readonly value: Value; readonly numBytes: number }>();
  #numBytes = 0;

  /** @param drop called with each evicted value. */
  constructor(maxBytes: number, drop: (value: Value) => void = () => {}) {
    this.#maxBytes = maxBytes;
    this.#drop = drop;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  /** The value of a key, which counts as a use of it. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Adds or replaces a value, evicting the least recently used. */
  set(key: string, value: Value, numBytes: number): void {
    this.delete(key);
    this.#entries.set(key, { value, numBytes });
    this.#numBytes += numBytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#numBytes <= this.#maxBytes || oldest === key) break;
      this.delete(oldest);
    }
  }

  /** Drops the value of a key, if there is one. */
  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#numBytes -= entry.numBytes;
    this.#drop(entry.value);
  }

  clear(): void {
    for (const key of [...this.#entries.keys()]) this.delete(key);
  }
}
