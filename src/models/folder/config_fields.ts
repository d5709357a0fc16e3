/**
 * Fields of a folder's JSON files: rules that check them, and the sizes of its text model. An absurd value makes the
 * start fail with an error that names the file and the field.
 *
 * @module
 */
import { join } from "node:path";
import { isRecord } from "../../base/json.ts";
import { StartupError } from "../../base/errors.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";

/** A fault in a value. */
interface FieldFault {
  /** Path from the value to the faulty part: `.size[1]`; empty if the value itself is at fault. */
  readonly path: string;
  /** The values that are wanted there: `a string`. */
  readonly wanted: string;
  readonly seen: unknown;
}

/** Finds the first fault in a value; `undefined` if there is none. */
export type FieldRule = (value: unknown) => FieldFault | undefined;

const MAX_SHOWN_CHARS = 80;

/** Makes a rule that accepts the values that pass a test. */
function passing(wanted: string, test: (value: unknown) => boolean): FieldRule {
  return (seen) => test(seen) ? undefined : { path: "", wanted, seen };
}

/** A rule for whole numbers from `min` to `max`. */
export function whole(min: number, max: number): FieldRule {
  return passing(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

/** A rule for numbers other than 0 of at most this absolute value. */
export function nonZero(max: number): FieldRule {
  return passing(
    `a number from -${max} to ${max} other than 0`,
    (value) => typeof value === "number" && value !== 0 && Math.abs(value) <= max,
  );
}

/** A rule for numbers of at most this absolute value. */
function number(max: number): FieldRule {
  return passing(
    `a number from -${max} to ${max}`,
    (value) => typeof value === "number" && Math.abs(value) <= max,
  );
}

export const FLAG = passing("true or false", (value) => typeof value === "boolean");

export const TEXT = passing("a string", (value) => typeof value === "string");

/** A rule for one value or a list of values. */
function oneOrMany(rule: FieldRule): FieldRule {
  return (value) => Array.isArray(value) ? listRule(rule)(value) : rule(value);
}

/** A rule for a list whose items follow `rule`. */
export function listRule(rule: FieldRule): FieldRule {
  return (value) => {
    if (!Array.isArray(value)) return { path: "", wanted: "an array", seen: value };
    for (const [index, item] of value.entries()) {
      const fault = rule(item);
      if (fault !== undefined) return { ...fault, path: `[${index}]${fault.path}` };
    }
    return undefined;
  };
}

/**
 * A rule for an object. Its fields follow `rules` unless they are absent or `null`; `required` fields must be present.
 */
export function fields(
  rules: Readonly<Record<string, FieldRule>>,
  options: { readonly required?: readonly string[] } = {},
): FieldRule {
  return (value) => {
    if (!isRecord(value)) return { path: "", wanted: "an object", seen: value };
    for (const [name, rule] of Object.entries(rules)) {
      const found = value[name] ?? undefined;
      if (found === undefined && !options.required?.includes(name)) continue;
      const fault = rule(found);
      if (fault !== undefined) return { ...fault, path: `.${name}${fault.path}` };
    }
    return undefined;
  };
}

/** A rule for a value of one of several types. Each choice is a test for the type and the rule for its values. */
export function either(
  wanted: string,
  ...choices: readonly (readonly [(value: unknown) => boolean, FieldRule])[]
): FieldRule {
  return (value) => {
    const found = choices.find(([test]) => test(value));
    return found === undefined ? { path: "", wanted, seen: value } : found[1](value);
  };
}

/**
 * Checks a file's content.
 *
 * @param file its path.
 * @throws {StartupError} naming the file, the field, the value and what is wanted.
 */
export function requireFields(json: Json, rule: FieldRule, file: string): void {
  const fault = rule(json);
  if (fault === undefined) return;
  // JSON has no infinities and would show them as null.
  const shown = typeof fault.seen === "number"
    ? `${fault.seen}`
    : JSON.stringify(fault.seen) ?? "nothing";
  const seen = shown.length <= MAX_SHOWN_CHARS ? shown : `${shown.slice(0, MAX_SHOWN_CHARS)}…`;
  throw new StartupError(`${file}: ${fault.path.slice(1)}: want ${fault.wanted}, saw ${seen}.`);
}

/**
 * Bounds for edges in pixels. A size of a billion would exhaust the memory at the first image, and a size of 0 would
 * make every image fail.
 */
const EDGE = whole(1, 8192);
/** Bounds for numbers of pixels. Some files give these numbers under the names of edges. */
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

/** Rules for `preprocessor_config.json` and `processor_config.json`, whichever class reads them. */
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

/** The rules for one processor. In processors like Qwen's, `size` limits the number of pixels rather than the edges. */
function chooseRules(settings: Json): FieldRule {
  const countsPixels = "min_pixels" in settings || "max_pixels" in settings ||
    "temporal_patch_size" in settings || "merge_size" in settings;
  return fields({ ...RULES, size: sizeRule(countsPixels ? PIXELS : EDGE) });
}

const FILES = ["preprocessor_config.json", "processor_config.json"];
/** Keys under which a file holds the settings of one processor. */
const PARTS = ["image_processor", "video_processor", "feature_extractor", "audio_processor"];

/**
 * Checks a folder's `preprocessor_config.json` and `processor_config.json`.
 *
 * @throws {StartupError} naming the file and the field whose value is out of bounds.
 */
export async function checkPreprocessors(folder: ModelFolder): Promise<void> {
  for (const name of FILES) {
    const settings = await readOptionalJson(folder, name);
    const file = join(folder.path, name);
    requireFields(settings, chooseRules(settings), file);
    for (const part of PARTS) {
      const inner = settings[part];
      if (isRecord(inner)) requireFields(settings, fields({ [part]: chooseRules(inner) }), file);
    }
  }
}

/** An upper bound for sizes, far above the sizes of any model. */
const MAX_SIZE = 2 ** 24;

/**
 * Context lengths by `model_type`: the defaults of Python's transformers. Its older versions do not write them into
 * `config.json`. BLOOM's configuration has no such field, so the value is the length that it was trained with.
 * Mamba 2 has no limit of its own, and no memory that grows with the sequence.
 */
const DEFAULT_CONTEXT_LENGTHS: Readonly<Record<string, number>> = {
  bloom: 2048,
  falcon: 2048,
  gemma: 8192,
  gemma2: 8192,
  gemma3_text: 131_072,
  gpt_neo: 2048,
  gpt_neox: 2048,
  gpt2: 1024,
  llama: 2048,
  mamba2: 131_072,
  mistral: 131_072,
  opt: 2048,
  phi: 2048,
  phi3: 4096,
  qwen2: 32_768,
  qwen3: 32_768,
};

/**
 * Reads the context length of a folder's text model, in tokens.
 *
 * @throws {StartupError} when neither `config.json` nor the model's type gives it.
 */
export function readContextLength(folder: ModelFolder): number {
  return findContextLength(folder) ?? refuse(folder, "max_position_embeddings or n_positions");
}

/** Like {@linkcode readContextLength}, but `undefined` if it is unknown. */
export function findContextLength(folder: ModelFolder): number | undefined {
  const type = String(getTextConfig(folder)["model_type"] ?? folder.config["model_type"]);
  return readSize(folder, [
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
  ]) ?? DEFAULT_CONTEXT_LENGTHS[type];
}

/**
 * Reads the number of tokens in a folder's vocabulary.
 *
 * @throws {StartupError} when `config.json` does not give it.
 */
export function readVocabSize(folder: ModelFolder): number {
  return readSize(folder, ["vocab_size"]) ?? refuse(folder, "vocab_size");
}

/** Reads the number and the size of key-value heads, as far as `config.json` gives them. */
export function readHeadSizes(
  folder: ModelFolder,
): { readonly kvHeads: number | undefined; readonly headDim: number | undefined } {
  const heads = readSize(folder, ["num_attention_heads", "n_head"]);
  const width = readSize(folder, ["hidden_size", "n_embd"]);
  const divided = heads === undefined || width === undefined ? undefined : width / heads;
  return {
    kvHeads: readSize(folder, ["num_key_value_heads"]) ?? heads,
    headDim: readSize(folder, ["head_dim"]) ??
      (Number.isInteger(divided) ? divided : undefined),
  };
}

/** Reads a size that `config.json` gives under one of `names`, at the top level or in `text_config`. */
function readSize(folder: ModelFolder, names: readonly string[]): number | undefined {
  const text = getTextConfig(folder);
  const found = names.flatMap((name) => [folder.config[name], text[name]])
    .find((value) => typeof value === "number");
  if (typeof found !== "number" || !Number.isInteger(found) || found <= 0) return undefined;
  return Math.min(found, MAX_SIZE);
}

function getTextConfig({ config }: ModelFolder): Json {
  return (config["text_config"] ?? {}) as Json;
}

function refuse({ path }: ModelFolder, names: string): never {
  throw new StartupError(`${path}/config.json gives no ${names}.`);
}
