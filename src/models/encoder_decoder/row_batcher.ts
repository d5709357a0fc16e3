/**
 * Jobs of many requests through one model whose rows need not have begun together: each is taken in when there is
 * room, and all take their next step at once.
 *
 * @module
 */
import type { GroupJob } from "./group_batcher.ts";
import { nextTurn } from "../turn.ts";

/** The rows of the jobs in work. */
export interface JobRows<Job> {
  readonly numRows: number;
  /** How many more there is room for. */
  readonly numFree: number;
  /** Takes jobs in; on failure none of them. */
  admit(jobs: readonly Job[]): Promise<void>;
  /** Runs the next step of all; those that end by it leave. */
  step(): Promise<void>;
  /** Lets go of all. @returns their jobs. */
  clear(): readonly Job[];
}

/** What the batcher works with. */
export interface RowBatcherOptions<Job extends GroupJob> {
  readonly rows: JobRows<Job>;
  /** Most jobs that are taken in together. */
  readonly maxAdmitted: number;
  /** Told of jobs that were taken in. */
  readonly onAdmitted: (jobs: readonly Job[], durationMs: number) => void;
  /** Told of a step that has run. */
  readonly onStep: (numRows: number, durationMs: number) => void;
}

/** See the module. */
export class RowBatcher<Job extends GroupJob> {
  readonly #options: RowBatcherOptions<Job>;
  #waiting: Job[] = [];
  #turning: Promise<void> | undefined;

  constructor(options: RowBatcherOptions<Job>) {
    this.#options = options;
  }

  /** Takes up a job. It is left out of the next step once it is dropped. */
  add(job: Job): void {
    this.#waiting.push(job);
    this.#turning ??= this.#turn();
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#turning;
  }

  async #turn(): Promise<void> {
    const { rows } = this.#options;
    // Requests that arrive together are taken in together.
    await nextTurn();
    while (this.#waiting.length + rows.numRows > 0) {
      await this.#admit();
      await this.#step();
      // Cancellations and new requests come in between steps.
      await nextTurn();
    }
    this.#turning = undefined;
  }

  async #admit(): Promise<void> {
    const { rows, maxAdmitted, onAdmitted } = this.#options;
    this.#waiting = this.#waiting.filter((job) => !job.isDropped());
    const jobs = this.#waiting.splice(0, Math.min(rows.numFree, maxAdmitted));
    if (jobs.length === 0) return;
    const startMs = performance.now();
    try {
      await rows.admit(jobs);
      onAdmitted(jobs, performance.now() - startMs);
    } catch (error) {
      for (const job of jobs) job.onError(error);
    }
  }

  async #step(): Promise<void> {
    const { rows, onStep } = this.#options;
    const { numRows } = rows;
    if (numRows === 0) return;
    const startMs = performance.now();
    try {
      await rows.step();
      onStep(numRows, performance.now() - startMs);
    } catch (error) {
      for (const job of rows.clear()) job.onError(error);
    }
  }
}
