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
import { MattingBatcher, MattingMetrics, MattingNetwork, readMaskSize } from "./matting_network.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import type { MatteEvent, MatteTask, Task } from "../task.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { Backend } from "../../device/backend.ts";
import { runStartupStep } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import {
  findBareGraph,
  guessFamily,
  identifyFamily,
  type MattingFamily,
} from "./matting_family.ts";
import { inspectMatting, type MattingGraph, unifyMatting } from "./matting_graph.ts";
import {
  type PreprocessorConfig,
  readLevelRange,
  readPreprocessorConfig,
} from "../folder/preprocessor_config.ts";
import { type GraphFile, readGraph } from "../folder/graph_file.ts";

/**
 * Images of at most this many pixels are decoded and encoded on this thread. That takes a few milliseconds, so the
 * images of many requests share a batch.
 */
const SMALL_PIXELS = 2 ** 18;

/** Default for the maximum number of images at a time. */
const MAX_IMAGES = 8;

/** A model for background removal, which owns its network. */
export class MattingModel implements Model {
  readonly kind = "matting";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #network: MattingNetwork;
  readonly #metrics = new MattingMetrics();
  readonly metrics = this.#metrics.registry;
  readonly #batcher: MattingBatcher;
  /** Limits the pixels in memory to one image of the largest size, or several smaller ones. */
  readonly #pixels: Budget;
  /** A separate budget for small images, so that they do not wait for large ones. */
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
    // Each image takes at least its share of the budget, so that no more than `maxSequences` large images, and as many
    // small ones, are worked on at a time.
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
      const png = await this.#codec.encode({ ...cutOut, colorProfile }, signal);
      this.#metrics.images.inc();
      this.#metrics.pixels.inc(numPixels);
      this.#metrics.imageSeconds.observe((performance.now() - startMs) / 1000);
      return { type: "done", png };
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

/** Rounding errors move probabilities below 0 or above 1 by less than this. Logits lie farther outside. */
const MAX_STRAY = 0.5;

/** @throws {StartupError} when the folder lacks the graph, or the graph cannot be used for background removal. */
export async function loadMatting(context: OpenContext): Promise<MattingModel> {
  const { folder, backend, engine } = context;
  await using file = await readGraph(context);
  const outputName = folder.config["output_name"];
  const inspect = (family: MattingFamily) =>
    inspectMatting(file.model, {
      family,
      outputName: typeof outputName === "string" ? outputName : undefined,
    });
  const bare = findBareGraph(folder);
  const named = identifyFamily(folder.config);
  const family = bare === undefined || hasProcessor(folder)
    ? named
    : guessFamily(bare, inspect(named).size?.width);
  const graph = inspect(family);
  const processor = await readProcessor(folder, family);
  const isRelative = "isRelative" in family;
  const network = await openNetwork(file, { graph, family, isRelative, processor, backend });
  return new MattingModel(network, { dtype: file.dtype, engine });
}

const PROCESSOR = "preprocessor_config.json";

function hasProcessor({ files }: ModelFolder): boolean {
  return files.has(PROCESSOR);
}

async function readProcessor(
  folder: ModelFolder,
  family: MattingFamily,
): Promise<PreprocessorConfig> {
  if (hasProcessor(folder)) {
    return readPreprocessorConfig(await readOptionalJson(folder, PROCESSOR));
  }
  const { size, image_mean: mean, image_std: std } = family.processor;
  log.warn("the model has no image preprocessing configuration", {
    missing: PROCESSOR,
    assumed: family.name,
    size: Object.values(size as Json).join("×"),
    mean: [mean].flat().join(" "),
    std: [std].flat().join(" "),
  });
  return readPreprocessorConfig(family.processor);
}

/** Levels from 0 to 1, for graphs that normalise images themselves. */
const UNIT_LEVELS = readLevelRange({ mean: [0, 0, 0], std: [1, 1, 1] });

/**
 * Opens the unified graph. Runs it on one image if the device has kernels to compile, or if the graph's nodes do not
 * show whether its masks are probabilities or logits.
 */
async function openNetwork(
  { model, files }: GraphFile,
  { graph, family: { stretches }, isRelative, processor, backend }: {
    readonly graph: MattingGraph;
    readonly family: MattingFamily;
    /** Whether levels are relative to the brightest level of the image. */
    readonly isRelative: boolean;
    readonly processor: PreprocessorConfig;
    readonly backend: Backend;
  },
): Promise<MattingNetwork> {
  const [red, green, blue] = processor.scale;
  const relative = isRelative
    ? { ...processor, scale: [255 * red, 255 * green, 255 * blue] as const }
    : undefined;
  const openAs = async (format: { readonly isLogits: boolean; readonly stretches: boolean }) => {
    const session = await backend.openModel(
      unifyMatting(model, graph, { ...format, relative }),
      files,
    );
    const images = await backend.openImages();
    const given = isRelative ? { ...processor, ...UNIT_LEVELS } : processor;
    return new MattingNetwork({ backend, session, images, processor: given, graph });
  };
  if (graph.values !== "unknown") {
    const network = await openAs({ isLogits: graph.values === "logits", stretches });
    if (backend.runtime !== "native") await probe(network, backend);
    return network;
  }
  const asTheyAre = await openAs({ isLogits: false, stretches: false });
  const values = await probe(asTheyAre, backend);
  const isLogits = values.some((value) => value < -MAX_STRAY || value > 1 + MAX_STRAY);
  if (!isLogits && !stretches) return asTheyAre;
  await asTheyAre.dispose();
  return await openAs({ isLogits, stretches });
}

/**
 * Runs the network on a generated image.
 *
 * @returns the values of the mask.
 * @throws {StartupError} when the graph does not take images or does not return masks.
 */
async function probe(network: MattingNetwork, backend: Backend): Promise<Float32Array> {
  const pixels = drawProbeImage();
  const image = network.images.open(pixels);
  return await runStartupStep(async () => {
    const row = { image, format: network.chooseFormat(pixels) };
    const masks = await network.run([row]);
    readMaskSize(masks);
    const values = await backend.read(masks);
    await network.mask(row, masks, 0);
    masks.dispose();
    return values.slice();
  }, (reason) => `The model cannot be used for background removal: ${reason}`)
    .finally(() => image.close());
}

/** Draws a bright disc on a dark background, with some texture on both. */
function drawProbeImage(): Pixels {
  const [width, height] = [96, 64];
  const data = new Uint8Array(4 * width * height);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) {
      const isSubject = Math.hypot(x - width / 2, y - height / 2) < height / 3;
      const texture = (x * 7 + y * 13) % 32;
      data[at] = (isSubject ? 210 : 20) + texture;
      data[at + 1] = (isSubject ? 160 : 40) + texture;
      data[at + 2] = (isSubject ? 120 : 60) + texture;
      data[at + 3] = 255;
    }
  }
  return { width, height, channels: 4, data };
}
