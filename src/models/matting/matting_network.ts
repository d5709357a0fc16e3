/**
 * A background-removal network: a graph with pre- and postprocessing, and dynamic batching, in which waiting images run
 * together as far as the graph allows.
 *
 * @module
 */
import type { MaskFormat, TensorFormat } from "../../../kernels/images/image_reference.ts";
import type { Backend } from "../../device/backend.ts";
import type { ImageKernels, MaskedImage, OpenImage } from "../../device/media.ts";
import { HearthError } from "../../base/errors.ts";
import type { ResampleFilter } from "../../media/resample.ts";
import type { GraphSession, Tensor } from "../../device/ort/ort.ts";
import { IMAGES, MASKS, type MattingGraph } from "./matting_graph.ts";
import {
  computeTensorFormat,
  type PreprocessorConfig,
  type Size,
} from "../folder/preprocessor_config.ts";
import { log } from "../../base/log.ts";
import { COUNT_BUCKETS, RequestMetrics } from "../../base/metric_set.ts";
import { yieldToEvents } from "../../base/timing.ts";

/** Filter for enlarging masks. Other filters ring at edges or make the mask's pixels visible. */
const MASK_FILTER: ResampleFilter = "bilinear";

/**
 * Maximum number of input pixels in one batch, as the graph's activations grow with them. On the CPU batching saves
 * only a twentieth of the time per image, and all images of a batch wait for the last one.
 */
const MAX_BATCH_PIXELS: Readonly<Record<Backend["kind"], number>> = {
  cpu: 2 ** 17,
  webgpu: 2 ** 19,
};

/** The parts of a network, which owns the session and the kernels. */
interface MattingNetworkParts {
  readonly backend: Backend;
  /** The session of a unified graph, with input {@linkcode IMAGES} and output {@linkcode MASKS}. */
  readonly session: GraphSession;
  readonly images: ImageKernels;
  readonly processor: PreprocessorConfig;
  readonly graph: Pick<MattingGraph, "layout" | "size" | "takesBatches">;
}

interface MattingRow {
  readonly image: OpenImage;
  readonly format: TensorFormat;
}

/** A network, which runs one call at a time. */
export class MattingNetwork {
  readonly images: ImageKernels;
  readonly #parts: MattingNetworkParts;

  constructor(parts: MattingNetworkParts) {
    this.images = parts.images;
    this.#parts = parts;
  }

  /** Chooses the format in which the graph takes an image. Images whose formats have equal sizes can share a batch. */
  chooseFormat(image: Size): TensorFormat {
    const { processor, graph: { size, layout } } = this.#parts;
    return computeTensorFormat(processor, { image, graph: size, layout });
  }

  /** Chooses the maximum number of images of a format in one run. */
  chooseBatchSize({ width, height }: TensorFormat): number {
    const { backend, graph } = this.#parts;
    if (!graph.takesBatches) return 1;
    return Math.max(1, Math.floor(MAX_BATCH_PIXELS[backend.kind] / (width * height)));
  }

  /**
   * Runs the graph.
   *
   * @param rows images whose formats have equal sizes.
   * @returns their masks, owned by the caller.
   */
  async run(rows: readonly MattingRow[]): Promise<Tensor> {
    const { session, images } = this.#parts;
    return (await session.run({ [IMAGES]: images.toTensor(rows) }))[MASKS]!;
  }

  /** Applies one of a run's masks to its image. */
  async mask({ image, format }: MattingRow, masks: Tensor, index: number): Promise<MaskedImage> {
    const size = readMaskSize(masks);
    return await this.images.mask(image, { masks, index, format: toMaskFormat(format, size) });
  }

  async dispose(): Promise<void> {
    this.images.dispose();
    await this.#parts.session.release();
  }
}

/**
 * Reads width and height of the masks in a tensor of shape `[masks, 1, height, width]`, `[masks, height, width, 1]` or
 * `[masks, height, width]`.
 *
 * @throws {HearthError} `inference_failed` when the tensor holds no masks.
 */
export function readMaskSize({ dims }: Pick<Tensor, "dims">): Size {
  const [, ...rest] = dims;
  const axis = rest.length === 3 ? rest[0] === 1 ? 0 : rest[2] === 1 ? 2 : -1 : -1;
  const [height, width] = axis < 0 ? rest : rest.toSpliced(axis, 1);
  if (height !== undefined && width !== undefined && rest.length - Number(axis >= 0) === 2) {
    return { width, height };
  }
  throw new HearthError(
    "inference_failed",
    `The graph returns [${dims.join(", ")}], but masks of one channel are expected.`,
  );
}

/** Computes the part of a mask that covers the image, without the border around it. */
function toMaskFormat(format: TensorFormat, { width, height }: Size): MaskFormat {
  return {
    width,
    height,
    contentWidth: width * format.contentWidth / format.width,
    contentHeight: height * format.contentHeight / format.height,
    filter: MASK_FILTER,
  };
}

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
  /** The batching loop, while images wait. */
  #loop: Promise<void> | undefined;

  constructor(network: MattingNetwork, metrics: MattingMetrics) {
    this.#network = network;
    this.#metrics = metrics;
  }

  /**
   * Computes an image's mask and applies it. Aborting `signal` removes the image from the queue.
   *
   * @throws the signal's reason; the device's error.
   */
  mask(row: MattingRow, signal: AbortSignal): Promise<MaskedImage> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<MaskedImage>();
    this.#waiting.push({ row, signal, onDone: resolve, onError: reject });
    this.#loop ??= this.#runLoop();
    return promise;
  }

  /** Waits until nothing is running. */
  async close(): Promise<void> {
    await this.#loop;
  }

  async #runLoop(): Promise<void> {
    // Images that arrive together share the first batch.
    await yieldToEvents();
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch();
      if (batch.length > 0) await this.#run(batch);
      // Cancellations and new requests come in between batches.
      await yieldToEvents();
    }
    this.#loop = undefined;
  }

  /** Takes the first waiting image and the images that can run with it. */
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

  /** Runs a failed batch image by image, as some exports declare a batch axis but have nodes that assume a size of 1. */
  async #runOneByOne(batch: readonly Job[], error: unknown): Promise<void> {
    if (batch.length === 1) return batch[0]!.onError(error);
    log.warn("a batch of images failed: images run one at a time from now on", { error });
    this.#runsOneByOne = true;
    for (const job of batch) await this.#run([job]);
  }
}

export class MattingMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were cut out.");
  readonly pixels = this.counter(
    "hearth_image_pixels_total",
    "Pixels of images that were cut out.",
  );
  readonly imageSeconds = this.histogram(
    "hearth_image_seconds",
    "Time from the beginning of work on an image to its PNG file.",
  );
  readonly batchSeconds = this.histogram(
    "hearth_batch_seconds",
    "Duration of a graph run, including resizing before and after it.",
  );
  readonly batchImages = this.histogram(
    "hearth_batch_images",
    "Images in a graph run.",
    COUNT_BUCKETS,
  );

  constructor() {
    super("Images");
  }
}
