/**
 * Windows of many requests through one encoder and decoder.
 *
 * @module
 */
import { GroupBatcher } from "./group_batcher.ts";
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
  readonly #groups: GroupBatcher<Waiting>;

  constructor(options: BatcherOptions) {
    const { maxRows, maxGroupRows, metrics } = options;
    this.#groups = new GroupBatcher({
      maxRows,
      choose: (waiting, numFreeRows) => waiting.slice(0, Math.min(numFreeRows, maxGroupRows)),
      open: (jobs) => WindowGroup.open(options, jobs),
      onOpened: (jobs, durationMs) => metrics.observeEncoding(jobs.length, durationMs),
      onStep: (numRows, durationMs) => metrics.observeStep(numRows, durationMs),
    });
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
    this.#groups.add({
      task,
      isDropped: () => signal.aborted,
      onDone: resolve,
      onError: reject,
    });
    return promise.finally(() => signal.removeEventListener("abort", leave));
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#groups.close();
  }
}
