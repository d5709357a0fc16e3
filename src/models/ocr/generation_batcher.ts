/**
 * Jobs of many requests through one encoder and decoder.
 *
 * @module
 */
import type { Sampler } from "../../backend/backend.ts";
import { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import type { EncodingDeps } from "./generation_encoding.ts";
import { GenerationGroup } from "./generation_group.ts";
import type { GenerationJob } from "./generation_row.ts";
import { type ChoiceJob, GenerationRows } from "./generation_rows.ts";
import type { GenerationRules } from "./generation_rules.ts";
import { GroupBatcher } from "../encoder_decoder/group_batcher.ts";
import type { MergedDecoder } from "../encoder_decoder/merged_decoder.ts";
import type { PictureMetrics } from "./picture_metrics.ts";
import { RowBatcher } from "../encoder_decoder/row_batcher.ts";

/** What the batcher works with. */
export interface GenerationBatcherOptions extends EncodingDeps {
  readonly decoder: CutDecoder | MergedDecoder;
  readonly sampler: Sampler;
  readonly rules: GenerationRules;
  /** Most choices at a time where the decoder is not cut. */
  readonly maxRows: number;
  /** Whether more jobs are about to come: where those that began together stay together, they are waited for. */
  readonly expectsMore: () => boolean;
  readonly metrics: PictureMetrics;
}

/** Choices of any age step together where the decoder is cut; else those that began together. */
export class GenerationBatcher {
  readonly #options: GenerationBatcherOptions;
  readonly #choices: RowBatcher<ChoiceJob> | undefined;
  readonly #groups: GroupBatcher<GenerationJob> | undefined;
  /** Jobs that wait for others to begin with. */
  #held: GenerationJob[] = [];

  constructor(options: GenerationBatcherOptions) {
    const { decoder, metrics } = options;
    this.#options = options;
    const onStep = (numRows: number, durationMs: number) =>
      metrics.observeStep(numRows, durationMs);
    if (decoder instanceof CutDecoder) {
      this.#choices = new RowBatcher({
        rows: new GenerationRows({ ...options, decoder }),
        maxAdmitted: options.maxPictures,
        onAdmitted: (choices, durationMs) =>
          metrics.observeEncoding(new Set(choices.map(({ job }) => job)).size, durationMs),
        onStep,
      });
      return;
    }
    this.#groups = new GroupBatcher({
      maxRows: options.maxRows,
      choose: (waiting, numFreeRows) => this.#chooseAlike(waiting, numFreeRows),
      open: (jobs) => GenerationGroup.open({ ...options, decoder }, jobs),
      onOpened: (jobs, durationMs) => metrics.observeEncoding(jobs.length, durationMs),
      onStep,
    });
  }

  /** Takes up a job. It is left out of the next step once it is dropped. */
  add(job: GenerationJob): void {
    const { isDropped, onError } = job;
    job.samples.forEach((_, index) => this.#choices?.add({ job, index, isDropped, onError }));
    if (this.#groups === undefined) return;
    this.#held.push(job);
    this.release();
  }

  /** Lets jobs begin that waited for others, if no others are to come. To be called when one of those has failed. */
  release(): void {
    const { expectsMore, maxRows } = this.#options;
    if (expectsMore() && this.#held.length < maxRows) return;
    for (const job of this.#held.splice(0)) this.#groups!.add(job);
  }

  /** Waits until nothing is under way. */
  async close(): Promise<void> {
    await this.#groups?.close();
    await this.#choices?.close();
  }

  /** The first that waits, and those behind it whose picture and text are of the same size. */
  #chooseAlike(waiting: readonly GenerationJob[], numFreeRows: number): GenerationJob[] {
    const [first] = waiting;
    if (first === undefined) return [];
    const isBusy = numFreeRows < this.#options.maxRows;
    // A job of more choices than there are rows waits until it is alone.
    if (isBusy && first.samples.length > numFreeRows) return [];
    const isAlike = ({ pixels, text }: GenerationJob) =>
      text.length === first.text.length && pixels.dims.join() === first.pixels.dims.join();
    const chosen = [first];
    let numRows = first.samples.length;
    for (const job of waiting.slice(1)) {
      if (!isAlike(job) || numRows + job.samples.length > numFreeRows) continue;
      chosen.push(job);
      numRows += job.samples.length;
    }
    return chosen;
  }
}
