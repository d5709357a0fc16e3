/**
 * Opens a background removal model.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import { startupStep } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { MattingModel } from "./matting.ts";
import {
  findBareGraph,
  guessFamily,
  identifyFamily,
  type MattingFamily,
} from "./matting_family.ts";
import { inspectMatting, type MattingGraph, unifyMatting } from "./matting_graph.ts";
import { MattingNetwork, readMaskSize } from "./matting_network.ts";
import {
  type PreprocessorConfig,
  readLevelRange,
  readPreprocessorConfig,
} from "../folder/preprocessor_config.ts";
import type { OpenContext } from "../model.ts";
import { type GraphFile, readGraph } from "../folder/graph_file.ts";

/** Rounding may take probabilities this far below 0 or above 1; logits go further. */
const MAX_STRAY = 0.5;

/** @throws {StartupError} when the folder lacks a graph, or holds one of another kind. */
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

/** Levels from 0 to 1, for graphs that do the rest themselves. */
const UNIT_LEVELS = readLevelRange({ mean: [0, 0, 0], std: [1, 1, 1] });

/**
 * Opens a unified graph. Runs one image if the device has kernels to compile, or if the graph's nodes do not show what
 * its masks are.
 */
async function openNetwork(
  { model, files }: GraphFile,
  { graph, family: { stretches }, isRelative, processor, backend }: {
    readonly graph: MattingGraph;
    readonly family: MattingFamily;
    /** Whether levels are relative to the image's brightest level. */
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
 * Runs an image.
 *
 * @throws {StartupError} when the graph does not take images, or gives no masks.
 */
async function probe(network: MattingNetwork, backend: Backend): Promise<Float32Array> {
  const pixels = probeImage();
  const image = network.images.open(pixels);
  return await startupStep(async () => {
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
