/**
 * Jobs of many requests through one model whose rows need not have begun together: each is taken in when there is
 * room, and all take their next step at once.
 *
 * @module
 */
import { type GroupJob, JobBatcher } from "./job_batcher.ts";

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
export class RowBatcher<Job extends GroupJob> extends JobBatcher<Job> {
  readonly #options: RowBatcherOptions<Job>;

  constructor(options: RowBatcherOptions<Job>) {
    super();
    this.#options = options;
  }

  protected get numInWork(): number {
    return this.#options.rows.numRows;
  }

  protected async advance(): Promise<void> {
    await this.#admit();
    await this.#step();
    // Cancellations and new requests come in between steps.
    await this.turns.next();
  }

  async #admit(): Promise<void> {
    const { rows, maxAdmitted, onAdmitted } = this.#options;
    const jobs = this.waiting.splice(0, Math.min(rows.numFree, maxAdmitted));
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
