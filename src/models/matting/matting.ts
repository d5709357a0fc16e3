/**
 * Background removal: image files in, PNG files of their subjects out.
 *
 * @module
 */
import type { MaskedImage } from "../../device/media.ts";
import type { Dtype, EngineSettings } from "../../base/config.ts";
import { DEFAULT_MAX_IMAGE_PIXELS, readColorProfile, readImageHeader } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import { Budget } from "../threads/semaphore.ts";
import { Codec } from "./codec.ts";
import { MattingBatcher, MattingMetrics, type MattingNetwork } from "./matting_network.ts";
import { type Model, requireTask } from "../model.ts";
import type { MatteEvent, MatteTask, Task } from "../task.ts";
import { ActiveRequests } from "../threads/active_requests.ts";

/**
 * Images up to this size are decoded and encoded on this thread. It takes a few milliseconds, so the images of many
 * requests share a batch.
 */
const SMALL_PIXELS = 2 ** 18;

/** Default for the most images at a time. */
const MAX_IMAGES = 8;

/** A matting model. It owns the network. */
export class MattingModel implements Model {
  readonly kind = "matting";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #network: MattingNetwork;
  readonly #metrics = new MattingMetrics();
  readonly metrics = this.#metrics.registry;
  readonly #batcher: MattingBatcher;
  /** Limits the pixels in memory: one of the largest images, or several smaller ones. */
  readonly #pixels: Budget;
  /** A separate budget for small images, so that they do not wait for larger ones. */
  readonly #smallPixels: Budget;
  readonly #maxImagePixels: number;
  readonly #codec: Codec;
  readonly #requests = new ActiveRequests();

  constructor(network: MattingNetwork, { dtype, engine }: {
    readonly dtype: Dtype;
    readonly engine: EngineSettings;
  }) {
    const { maxSequences = MAX_IMAGES, maxImagePixels = DEFAULT_MAX_IMAGE_PIXELS } = engine;
    this.#network = network;
    this.dtype = dtype;
    this.maxSequences = maxSequences;
    this.#maxImagePixels = maxImagePixels;
    this.#pixels = new Budget(maxImagePixels);
    this.#smallPixels = new Budget(maxSequences * SMALL_PIXELS);
    this.#codec = new Codec({
      maxThreads: engine.cpuThreads,
      maxPixels: maxImagePixels,
      inlinePixels: SMALL_PIXELS,
    });
    this.#metrics.requests = () => ({
      running: this.#pixels.numTaken + this.#smallPixels.numTaken,
      waiting: this.#pixels.numWaiting + this.#smallPixels.numWaiting,
    });
    this.#batcher = new MattingBatcher(network, this.#metrics);
  }

  start(task: Task, emit: (event: MatteEvent) => void): () => void {
    requireTask(task, "matte");
    const { requestId, param } = task;
    return this.#requests.start({
      requestId,
      what: "background removal",
      emit,
      param,
      answer: async (signal) => {
        const result = await this.#work(task, signal);
        if (!signal.aborted) emit(result);
      },
    });
  }

  async dispose(): Promise<void> {
    await this.#requests.settle();
    await this.#batcher.close();
    this.#codec.close();
    await this.#network.dispose();
  }

  async #work({ image, options }: MatteTask, signal: AbortSignal): Promise<MatteEvent> {
    const { width: storedWidth, height: storedHeight } = readImageHeader(image);
    const numPixels = storedWidth * storedHeight;
    const isSmall = numPixels <= SMALL_PIXELS;
    // However small images are, no more of them run at a time than the model's limit.
    const giveBack = isSmall
      ? await this.#smallPixels.take(SMALL_PIXELS, signal)
      : await this.#pixels.take(
        Math.max(numPixels, this.#maxImagePixels / this.maxSequences),
        signal,
      );
    try {
      signal.throwIfAborted();
      const startMs = performance.now();
      // Decoding transfers the file's memory, so its colour profile is copied first.
      const colorProfile = options.maskOnly ? undefined : readColorProfile(image)?.slice();
      const original = await this.#codec.decode(image, signal);
      const { masked, maskSide } = await this.#mask(original, signal);
      const cutOut = options.refine || options.crop
        ? {
          pixels: await this.#codec.make({ original, masked, maskSide, options }, signal),
          options: {},
        }
        : { ...masked, options };
      const { width, height } = cutOut.pixels;
      const png = await this.#codec.encode({ ...cutOut, colorProfile }, signal);
      this.#metrics.images.inc();
      this.#metrics.pixels.inc(numPixels);
      this.#metrics.imageSeconds.observe((performance.now() - startMs) / 1000);
      return { type: "done", png, width, height };
    } finally {
      giveBack();
    }
  }

  async #mask(
    pixels: Pixels,
    signal: AbortSignal,
  ): Promise<{ readonly masked: MaskedImage; readonly maskSide: number }> {
    const format = this.#network.chooseFormat(pixels);
    const image = this.#network.images.open(pixels);
    try {
      const masked = await this.#batcher.mask({ image, format }, signal);
      return { masked, maskSide: Math.max(format.contentWidth, format.contentHeight) };
    } finally {
      image.close();
    }
  }
}
