/**
 * Loads a model folder: identifies its family, chooses its graphs and opens them.
 *
 * @module
 */
import { toDeviceClass } from "../../device/backend.ts";
import { isRecord } from "../../base/json.ts";
import type { Dtype, ModelKind, ResolvedModel } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import {
  externalDataFiles,
  type Json,
  type ModelFolder,
  openAnyFolder,
  readOptionalJson,
} from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { NOTHING, readAvailableBytes, requireMemory, weighFiles } from "../folder/memory.ts";
import { identifyFamily } from "./families.ts";
import { findVariants } from "../folder/graph_variants.ts";
import { chooseCutGraphs } from "./cut_choice.ts";
import { LOADERS } from "./loaders.ts";
import type { Model, OpenContext } from "../model.ts";
import { join } from "node:path";
import {
  either,
  type FieldFault,
  type FieldRule,
  fields,
  FLAG,
  nonZero,
  number,
  oneOrMany,
  requireFields,
  whole,
} from "../folder/field_rules.ts";

interface ModelLoadOptions extends
  Pick<
    OpenContext,
    "backend" | "engine" | "vadFolder" | "speakerEncoderFolder" | "onProgress"
  > {
  readonly model: ResolvedModel;
  /** The best one for the device if absent. */
  readonly dtype?: Dtype | undefined;
  /** Detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
}

/** @throws {StartupError} when the folder, or the requested dtype or kind, cannot be loaded. */
export async function loadModel(options: ModelLoadOptions): Promise<Model> {
  const folder = await openAnyFolder(options.model.folder);
  const family = identifyFamily(folder, options.kind);
  const { kind } = family;
  // A text decoder may run without ONNX Runtime.
  if (kind !== "text") options.backend.prepareRuntime();
  if (options.vadFolder !== undefined && kind !== "asr") {
    throw new StartupError(
      `Voice activity is for speech models, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "vadFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && kind !== "tts") {
    throw new StartupError(
      `A speaker encoder is for models that speak, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "speakerEncoderFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && !family.takesSpeakerEncoder) {
    throw new StartupError(
      `A speaker encoder is for SpeechT5, and ${folder.path} is a speech model of type "${family.name}".`,
      { setting: "speakerEncoderFolder" },
    );
  }
  const { backend, dtype } = options;
  const wish = { dtype, device: toDeviceClass(backend) };
  const graphs = await chooseCutGraphs(folder, family.graphs(folder), wish);
  const { main } = graphs;
  const variants = findVariants(folder, main.name, wish.device).filter(({ path }) =>
    path !== main.path
  );
  if (!main.path.startsWith("onnx/") && variants.length > 0) {
    log.info("the variant of the graph that suits the device is taken", {
      graph: main.path,
      others: variants.map(({ path }) => path).join(", "),
    });
  }
  // For text, the needs of a cut decoder are computed more exactly later.
  if (kind !== "text") {
    const files = graphs.all.flatMap(({ path }) => [path, ...externalDataFiles(folder, path)]);
    requireMemory(
      { ...NOTHING, weightsBytes: await weighFiles(folder, files) },
      { backend, availableBytes: await readAvailableBytes(), otherDtypes: [] },
    );
  }
  await checkPreprocessors(folder);
  const context = { ...options, folder, graphs, modelName: options.model.id };
  return await LOADERS[family.loader](context);
}

/**
 * Bounds for the values of `preprocessor_config.json` and `processor_config.json`, whichever class reads them. A size
 * of a billion would exhaust the memory at the first image, and a size of 0 would make every image fail.
 */
const EDGE = whole(1, 8192);
/** Bounds for limits on the number of pixels, some of which are stored under names of edges. */
const PIXELS = whole(1, 2 ** 28);
const PATCH = whole(1, 1024);
const LEVELS = oneOrMany(number(1e6));

/** Accepts a length, `[width, height]`, or an object of lengths. */
function sizeRule(length: FieldRule): FieldRule {
  const members: FieldRule = (value): FieldFault | undefined => {
    for (const [name, each] of Object.entries(value as Json)) {
      const fault = each === null || typeof each === "boolean" ? undefined : length(each);
      if (fault !== undefined) return { ...fault, path: `.${name}` };
    }
    return undefined;
  };
  return either(
    "a length, or an object of lengths",
    [(value) => typeof value === "number", length],
    [Array.isArray, oneOrMany(length)],
    [isRecord, members],
  );
}

const RULES: Readonly<Record<string, FieldRule>> = {
  // Images
  ...Object.fromEntries(
    ["crop_size", "pad_size", "image_size", "max_size", "tile_size"].map((
      name,
    ) => [name, sizeRule(EDGE)]),
  ),
  max_image_size: sizeRule(EDGE),
  patch_size: sizeRule(PATCH),
  encoder_patch_size: PATCH,
  min_pixels: PIXELS,
  max_pixels: PIXELS,
  merge_size: whole(1, 64),
  spatial_merge_size: whole(1, 64),
  temporal_patch_size: whole(1, 64),
  downsample_factor: whole(1, 64),
  max_tiles: whole(1, 256),
  max_patches: whole(1, 256),
  num_crops: whole(1, 256),
  max_num_patches: whole(1, 2 ** 16),
  image_seq_length: whole(1, 2 ** 16),
  size_divisor: whole(1, 4096),
  size_divisibility: whole(1, 4096),
  resample: whole(0, 5),
  rescale_factor: nonZero(1e6),
  image_mean: LEVELS,
  mean: LEVELS,
  image_std: oneOrMany(nonZero(1e6)),
  std: oneOrMany(nonZero(1e6)),
  do_resize: FLAG,
  do_normalize: FLAG,
  do_rescale: FLAG,
  do_pad: FLAG,
  // Sound
  sampling_rate: whole(1000, 768_000),
  feature_size: whole(1, 4096),
  num_mel_bins: whole(1, 1024),
  n_fft: whole(1, 2 ** 16),
  hop_length: whole(1, 2 ** 16),
  win_length: whole(1, 2 ** 16),
  frame_length: whole(1, 2 ** 16),
  fft_window_size: whole(1, 2 ** 16),
  chunk_length: whole(1, 3600),
  n_samples: whole(1, 2 ** 26),
  nb_max_frames: whole(1, 2 ** 20),
};

/** The rules for one processor. Processors like Qwen's limit the number of pixels where others give edges. */
function rulesFor(settings: Json): FieldRule {
  const countsPixels = "min_pixels" in settings || "max_pixels" in settings ||
    "temporal_patch_size" in settings || "merge_size" in settings;
  return fields({ ...RULES, size: sizeRule(countsPixels ? PIXELS : EDGE) });
}

const FILES = ["preprocessor_config.json", "processor_config.json"];
/** Keys of single processors within a file. */
const PARTS = ["image_processor", "video_processor", "feature_extractor", "audio_processor"];

/** @throws {StartupError} naming the file and the field that is out of its bounds. */
export async function checkPreprocessors(folder: ModelFolder): Promise<void> {
  for (const name of FILES) {
    const settings = await readOptionalJson(folder, name);
    const file = join(folder.path, name);
    requireFields(settings, rulesFor(settings), file);
    for (const part of PARTS) {
      const inner = settings[part];
      if (isRecord(inner)) requireFields(settings, fields({ [part]: rulesFor(inner) }), file);
    }
  }
}
