/**
 * Shares concurrent work: it is done once for all who want it, and cancelled when nobody wants it any longer.
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
   * Waits for a job, and starts it unless it is running.
   *
   * @param begin does the work. Its signal is aborted when all callers have left.
   * @throws the signal's reason, or the errors of the work.
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
        // The job is over for later callers: they start a new one.
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

/** A cache of values with a limit on their bytes. The last added value is kept whatever its size. */
export class ByteBudgetCache<Value> {
  readonly #maxBytes: number;
  readonly #drop: (value: Value) => void;
  /** Entries, the least recently used first. */
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

  /** The value of a key. Reading counts as use. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Adds or replaces a value, and evicts the least recently used ones. */
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
