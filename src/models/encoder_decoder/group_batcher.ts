/**
 * Jobs of many requests through one model that knows one length for all its rows: those that wait begin together, and
 * groups that began at different times take turns, step by step.
 *
 * @module
 */
import { type GroupJob, JobBatcher } from "./job_batcher.ts";

/** Jobs that began together. */
export interface JobGroup {
  /** Rows in work. */
  readonly numRows: number;
  /** Runs the next token of all rows. @returns whether there is more to do. */
  step(): Promise<boolean>;
  /** Frees what it holds. */
  dispose(): void;
}

/** What the batcher works with. */
export interface GroupBatcherOptions<Job extends GroupJob> {
  /** Most rows at a time. */
  readonly maxRows: number;
  /** Those of the jobs, first come first, that are to begin together where there is room for so many rows. */
  readonly choose: (waiting: readonly Job[], numFreeRows: number) => readonly Job[];
  readonly open: (jobs: readonly Job[]) => Promise<JobGroup>;
  /** Told of a group that was opened. */
  readonly onOpened: (jobs: readonly Job[], durationMs: number) => void;
  /** Told of a step that has run. */
  readonly onStep: (numRows: number, durationMs: number) => void;
}

/** See the module. */
export class GroupBatcher<Job extends GroupJob> extends JobBatcher<Job> {
  readonly #options: GroupBatcherOptions<Job>;
  readonly #groups = new Map<JobGroup, readonly Job[]>();

  constructor(options: GroupBatcherOptions<Job>) {
    super();
    this.#options = options;
  }

  protected get numInWork(): number {
    return this.#groups.size;
  }

  protected async advance(): Promise<void> {
    await this.#beginGroup();
    for (const [group, jobs] of [...this.#groups]) {
      await this.#stepGroup(group, jobs);
      // Cancellations and new requests come in between steps.
      await this.turns.next();
    }
  }

  async #beginGroup(): Promise<void> {
    const { maxRows, choose, open, onOpened } = this.#options;
    const inWork = [...this.#groups.keys()].reduce((sum, { numRows }) => sum + numRows, 0);
    const jobs = choose(this.waiting, Math.max(0, maxRows - inWork));
    if (jobs.length === 0) return;
    this.waiting = this.waiting.filter((job) => !jobs.includes(job));
    const startMs = performance.now();
    try {
      this.#groups.set(await open(jobs), jobs);
      onOpened(jobs, performance.now() - startMs);
    } catch (error) {
      for (const job of jobs) job.onError(error);
    }
  }

  async #stepGroup(group: JobGroup, jobs: readonly Job[]): Promise<void> {
    const { numRows } = group;
    const startMs = performance.now();
    try {
      const goesOn = await group.step();
      this.#options.onStep(numRows, performance.now() - startMs);
      if (goesOn) return;
    } catch (error) {
      for (const job of jobs) job.onError(error);
    }
    this.#groups.delete(group);
    group.dispose();
  }
}
