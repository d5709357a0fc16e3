/**
 * Windows of many requests through one encoder and decoder.
 *
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import { GroupBatcher } from "../encoder_decoder/group_batcher.ts";
import { RowBatcher } from "../encoder_decoder/row_batcher.ts";
import type { SpeechMetrics } from "./speech_metrics.ts";
import { WhisperAligner } from "./whisper_aligner.ts";
import { type GroupDeps, WindowGroup } from "./whisper_group.ts";
import { WindowRows } from "./whisper_rows.ts";
import type { DecodedWindow, WindowJob, WindowTask } from "./whisper_window.ts";

/** What the batcher works with. */
export interface BatcherOptions extends Omit<GroupDeps, "decoder"> {
  /** Most windows at a time. */
  readonly maxRows: number;
  /** Most windows that the encoder takes in one piece. */
  readonly maxGroupRows: number;
  /** Those that tell when tokens are spoken. */
  readonly alignmentHeads: readonly SiteHeads[];
  readonly metrics: SpeechMetrics;
}

/** See the module. */
export class WhisperBatcher {
  readonly #jobs: RowBatcher<WindowJob> | GroupBatcher<WindowJob>;

  constructor(options: BatcherOptions) {
    this.#jobs = openBatcher(options);
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
    this.#jobs.add({
      task,
      isDropped: () => signal.aborted,
      onDone: resolve,
      onError: reject,
    });
    return promise.finally(() => signal.removeEventListener("abort", leave));
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#jobs.close();
  }
}

/** Windows of any age step together where the decoder is cut; else those that began together. */
function openBatcher(options: BatcherOptions): RowBatcher<WindowJob> | GroupBatcher<WindowJob> {
  const { graphs, maxRows, maxGroupRows, metrics } = options;
  const onOpened = (jobs: readonly WindowJob[], durationMs: number) =>
    metrics.observeEncoding(jobs.length, durationMs);
  const onStep = (numRows: number, durationMs: number) => metrics.observeStep(numRows, durationMs);
  const { cutDecoder, wholeDecoder } = graphs;
  if (cutDecoder !== undefined) {
    const aligner = new WhisperAligner({ ...options, decoder: cutDecoder });
    const rows = new WindowRows({ ...options, decoder: cutDecoder, aligner });
    return new RowBatcher({ rows, maxAdmitted: maxGroupRows, onAdmitted: onOpened, onStep });
  }
  return new GroupBatcher({
    maxRows,
    choose: (waiting, numFreeRows) => waiting.slice(0, Math.min(numFreeRows, maxGroupRows)),
    open: (jobs) => WindowGroup.open({ ...options, decoder: wholeDecoder! }, jobs),
    onOpened,
    onStep,
  });
}
