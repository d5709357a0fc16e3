/**
 * Opens a background removal model.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { HearthError, StartupError } from "../../errors.ts";
import { log } from "../../log.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { MattingModel } from "./matting.ts";
import { type MattingFamily, mattingFamilyOf } from "./matting_family.ts";
import { inspectMatting, type MattingGraph, unifyMatting } from "./matting_graph.ts";
import { maskSizeOf, MattingNetwork } from "./matting_network.ts";
import { type ImageProcessor, readImageProcessor } from "../image_processor.ts";
import type { OpenContext } from "../family.ts";
import { type GraphFile, readGraph } from "../graph_file.ts";

/** Default of the most images at a time. */
const MAX_IMAGES = 8;
/** Probabilities may exceed 0 and 1 by this much through rounding; logits exceed it further. */
const MAX_STRAY = 0.5;

/** @throws {StartupError} when the folder lacks a graph, or holds one of another kind. */
export async function loadMatting(context: OpenContext): Promise<MattingModel> {
  const { folder, backend, engine } = context;
  await using file = await readGraph(context);
  const family = mattingFamilyOf(folder.config);
  const outputName = folder.config["output_name"];
  const graph = inspectMatting(file.model, {
    family,
    outputName: typeof outputName === "string" ? outputName : undefined,
  });
  const opener = new Opener({ file, graph, family, backend });
  const processor = await readProcessor(folder, family);
  const network = await opener.open(processor);
  return new MattingModel({
    network,
    dtype: file.dtype,
    takesBatches: graph.takesBatches,
    device: backend.kind,
    maxImages: engine.maxSequences ?? MAX_IMAGES,
    maxThreads: engine.cpuThreads,
    maxImagePixels: engine.maxImagePixels,
  });
}

async function readProcessor(
  folder: ModelFolder,
  family: MattingFamily,
): Promise<ImageProcessor> {
  const name = "preprocessor_config.json";
  if (folder.files.has(name)) {
    return readImageProcessor(await readOptionalJson(folder, name));
  }
  log.warn("the folder has no image preprocessing configuration", {
    missing: name,
    assumed: family.name,
  });
  return readImageProcessor(family.processor);
}

interface OpenerParts {
  readonly file: GraphFile;
  readonly graph: MattingGraph;
  readonly family: MattingFamily;
  readonly backend: Backend;
}

/** Opens a graph in its uniform shape. */
class Opener {
  readonly #parts: OpenerParts;

  constructor(parts: OpenerParts) {
    this.#parts = parts;
  }

  /**
   * Runs an image once, which has the device compile its kernels, and tells what the graph's nodes do not; not where
   * there is nothing to compile or to be told.
   */
  async open(processor: ImageProcessor): Promise<MattingNetwork> {
    const { graph: { values }, family: { stretches }, backend } = this.#parts;
    if (values !== "unknown") {
      const network = await this.#openAs(processor, { isLogits: values === "logits", stretches });
      if (backend.runtime !== "native") await this.#probe(network);
      return network;
    }
    const asTheyAre = await this.#openAs(processor, { isLogits: false, stretches: false });
    const isLogits = (await this.#probe(asTheyAre)).some((value) =>
      value < -MAX_STRAY || value > 1 + MAX_STRAY
    );
    if (!isLogits && !stretches) return asTheyAre;
    await asTheyAre.dispose();
    return await this.#openAs(processor, { isLogits, stretches });
  }

  async #openAs(
    processor: ImageProcessor,
    form: { readonly isLogits: boolean; readonly stretches: boolean },
  ): Promise<MattingNetwork> {
    const { file: { model, files }, graph, backend } = this.#parts;
    const session = await backend.openModel(unifyMatting(model, graph, form), files);
    const images = await backend.openImages();
    return new MattingNetwork({ session, images, processor, ...graph });
  }

  /** @throws {StartupError} when the graph does not take images, or gives no masks. */
  async #probe(network: MattingNetwork): Promise<Float32Array> {
    const pixels = probeImage();
    const image = network.images.open(pixels);
    try {
      const row = { image, form: network.formOf(pixels) };
      const masks = await network.run([row]);
      maskSizeOf(masks);
      const values = await this.#parts.backend.read(masks);
      await network.mask(row, masks, 0);
      masks.dispose();
      return values.slice();
    } catch (error) {
      const reason = error instanceof HearthError ? error.message : (error as Error).message;
      throw new StartupError(`The model cannot be used for background removal: ${reason}`, {
        cause: error,
      });
    } finally {
      image.close();
    }
  }
}

/** A bright disc on a dark background, with some texture on both. */
function probeImage(): Pixels {
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
