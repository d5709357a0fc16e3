/**
 * What batchers have in common: jobs wait, and as long as any do or are in work, there is a next thing to do.
 *
 * @module
 */
import { BusyTurns } from "../../next_turn.ts";

/** What waits for its place in a batch. */
export interface GroupJob {
  /** Whether nobody waits for it any more. */
  readonly isDropped: () => boolean;
  /** What it took part in has failed; it hears nothing more. */
  readonly onError: (error: unknown) => void;
}

/** See the module. */
export abstract class JobBatcher<Job extends GroupJob> {
  /** First come first. */
  protected waiting: Job[] = [];
  /** Of the steps from the first job on. */
  protected turns = new BusyTurns();
  #turning: Promise<void> | undefined;

  /** Takes up a job. It is left out of the next step once it is dropped. */
  add(job: Job): void {
    this.waiting.push(job);
    this.#turning ??= this.#turn();
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#turning;
  }

  /** 0 when all that was taken in has ended. */
  protected abstract get numInWork(): number;

  /** Takes in what there is room for, of jobs that somebody waits for, and runs a step of what is in work. */
  protected abstract advance(): Promise<void>;

  async #turn(): Promise<void> {
    this.turns = new BusyTurns();
    // Requests that arrive together begin together.
    await this.turns.next();
    while (this.waiting.length + this.numInWork > 0) {
      this.waiting = this.waiting.filter((job) => !job.isDropped());
      await this.advance();
    }
    this.#turning = undefined;
  }
}
