/**
 * Windows of many requests through one encoder and decoder: those that wait begin together, and groups that began at
 * different times take turns, token by token.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import type { SpeechMetrics } from "./speech_metrics.ts";
import { type GroupDeps, WindowGroup, type WindowJob } from "./whisper_group.ts";
import type { DecodedWindow, WindowTask } from "./whisper_window.ts";

/** What the batcher works with. */
export interface BatcherOptions extends GroupDeps {
  /** Most windows at a time. */
  readonly maxRows: number;
  /** Most windows of one group: the encoder takes them in one piece. */
  readonly maxGroupRows: number;
  readonly metrics: SpeechMetrics;
}

interface Waiting extends WindowJob {
  readonly onError: (error: unknown) => void;
}

/** See the module. */
export class WhisperBatcher {
  readonly #options: BatcherOptions;
  readonly #groups = new Map<WindowGroup, readonly Waiting[]>();
  #waiting: Waiting[] = [];
  #turning: Promise<void> | undefined;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /**
   * Decodes a window. Aborting `signal` drops it before the next token.
   *
   * @throws the signal's reason; what went wrong on the device.
   */
  decode(task: WindowTask, signal: AbortSignal): Promise<DecodedWindow> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<DecodedWindow>();
    const leave = () => reject(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push({
      task,
      isDropped: () => signal.aborted,
      onDone: resolve,
      onError: reject,
    });
    this.#turning ??= this.#turn();
    return promise.finally(() => signal.removeEventListener("abort", leave));
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#turning;
  }

  async #turn(): Promise<void> {
    // Requests that arrive together share the first group.
    await nextTurn();
    while (this.#waiting.length + this.#groups.size > 0) {
      await this.#beginGroup();
      for (const [group, jobs] of [...this.#groups]) {
        await this.#stepGroup(group, jobs);
        // Cancellations and new requests come in between steps.
        await nextTurn();
      }
    }
    this.#turning = undefined;
  }

  async #beginGroup(): Promise<void> {
    this.#waiting = this.#waiting.filter((job) => !job.isDropped());
    const { maxRows, maxGroupRows, metrics } = this.#options;
    const inWork = [...this.#groups.keys()].reduce((sum, { numRows }) => sum + numRows, 0);
    const jobs = this.#waiting.splice(0, Math.max(0, Math.min(maxRows - inWork, maxGroupRows)));
    if (jobs.length === 0) return;
    const startMs = performance.now();
    try {
      this.#groups.set(await WindowGroup.open(this.#options, jobs), jobs);
      metrics.observeEncoding(jobs.length, performance.now() - startMs);
    } catch (error) {
      for (const job of jobs) job.onError(error);
    }
  }

  async #stepGroup(group: WindowGroup, jobs: readonly Waiting[]): Promise<void> {
    const { numRows } = group;
    const startMs = performance.now();
    try {
      const goesOn = await group.step();
      this.#options.metrics.observeStep(numRows, performance.now() - startMs);
      if (goesOn) return;
    } catch (error) {
      for (const job of jobs) job.onError(error);
    }
    this.#groups.delete(group);
    group.dispose();
  }
}

/** Lets messages in: a timer would cost a millisecond a step. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
