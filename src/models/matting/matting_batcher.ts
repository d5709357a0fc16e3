/**
 * Dynamic batching of images: waiting images run together, as far as the graph allows.
 *
 * @module
 */
import type { MaskedImage } from "../../device/images.ts";
import { log } from "../../base/log.ts";
import { COUNT_BUCKETS, RequestMetrics } from "../../base/metric_set.ts";
import { yieldToEvents } from "../../base/yield_to_events.ts";
import type { Tensor } from "../../device/ort/ort.ts";
import type { MattingNetwork, MattingRow } from "./matting_network.ts";

interface Job {
  readonly row: MattingRow;
  readonly signal: AbortSignal;
  readonly onDone: (masked: MaskedImage) => void;
  readonly onError: (error: unknown) => void;
}

export class MattingBatcher {
  readonly #network: MattingNetwork;
  readonly #metrics: MattingMetrics;
  #runsOneByOne = false;
  #waiting: Job[] = [];
  #turning: Promise<void> | undefined;

  constructor(network: MattingNetwork, metrics: MattingMetrics) {
    this.#network = network;
    this.#metrics = metrics;
  }

  /**
   * Gives an image its mask; see {@linkcode MattingNetwork.mask}. Aborting `signal` removes the image from the queue.
   *
   * @throws the signal's reason; the device's error.
   */
  mask(row: MattingRow, signal: AbortSignal): Promise<MaskedImage> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<MaskedImage>();
    this.#waiting.push({ row, signal, onDone: resolve, onError: reject });
    this.#turning ??= this.#turn();
    return promise;
  }

  /** Waits until nothing is running. */
  async close(): Promise<void> {
    await this.#turning;
  }

  async #turn(): Promise<void> {
    // Images that arrive together share the first batch.
    await yieldToEvents();
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch();
      if (batch.length > 0) await this.#run(batch);
      // Cancellations and new requests come in between batches.
      await yieldToEvents();
    }
    this.#turning = undefined;
  }

  /** Takes the first waiting image, and those that can run with it. */
  #takeBatch(): Job[] {
    for (const { signal, onError } of this.#waiting) {
      if (signal.aborted) onError(signal.reason);
    }
    const waiting = this.#waiting.filter(({ signal }) => !signal.aborted);
    const format = waiting[0]?.row.format;
    if (format === undefined) {
      this.#waiting = [];
      return [];
    }
    const most = this.#runsOneByOne ? 1 : this.#network.chooseBatchSize(format);
    const fits = ({ row }: Job) =>
      row.format.width === format.width && row.format.height === format.height;
    const batch = waiting.filter(fits).slice(0, most);
    this.#waiting = waiting.filter((job) => !batch.includes(job));
    return batch;
  }

  async #run(batch: readonly Job[]): Promise<void> {
    const startMs = performance.now();
    let masks: Tensor;
    try {
      masks = await this.#network.run(batch.map(({ row }) => row));
    } catch (error) {
      return await this.#runOneByOne(batch, error);
    }
    for (const [index, job] of batch.entries()) await this.#finish(job, masks, index);
    masks.dispose();
    this.#metrics.batchImages.observe(batch.length);
    this.#metrics.batchSeconds.observe((performance.now() - startMs) / 1000);
  }

  async #finish({ row, signal, onDone, onError }: Job, masks: Tensor, index: number) {
    try {
      signal.throwIfAborted();
      onDone(await this.#network.mask(row, masks, index));
    } catch (error) {
      onError(error);
    }
  }

  /** Runs a failed batch image by image: some exports declare a batch axis, but have nodes that assume a size of 1. */
  async #runOneByOne(batch: readonly Job[], error: unknown): Promise<void> {
    if (batch.length === 1) return batch[0]!.onError(error);
    log.warn("a batch of images failed: they run one by one from now on", { error });
    this.#runsOneByOne = true;
    for (const job of batch) await this.#run([job]);
  }
}

export class MattingMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were cut out.");
  readonly pixels = this.counter("hearth_image_pixels_total", "Their pixels.");
  readonly imageSeconds = this.histogram(
    "hearth_image_seconds",
    "From the beginning of work on an image to its PNG file.",
  );
  readonly batchSeconds = this.histogram(
    "hearth_batch_seconds",
    "Duration of a graph run, including resizing before and after it.",
  );
  readonly batchImages = this.histogram(
    "hearth_batch_images",
    "Images in a run of the graph.",
    COUNT_BUCKETS,
  );

  constructor() {
    super("Images");
  }
}
