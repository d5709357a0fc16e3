/**
 * A family of models: how its folders are recognised, which graphs it runs and how it is opened; and what the families
 * of one kind share.
 *
 * @module
 */
import type { ModelKind } from "../../base/config.ts";
import { toModelName } from "../../hub/cache.ts";
import { hasGraph, listDtypes, type ModelFolder } from "../../hub/model_folder.ts";
import { allGraphs, MERGED, type WantedGraph } from "../folder/graph_choice.ts";
import { hasVariant } from "../folder/graph_variants.ts";
import type { LOADERS } from "./loaders.ts";

export interface Family {
  /** Its `model_type`, if it has one; else a name of our own. */
  readonly name: string;
  readonly kind: ModelKind;
  /** Whether a folder belongs to this family. */
  matches(folder: ModelFolder): boolean;
  /** Like `matches`, for a folder whose kind the user has named; `matches` itself if absent. */
  accepts?(folder: ModelFolder): boolean;
  /** The graphs that run, the main one first. */
  graphs(folder: ModelFolder): readonly WantedGraph[];
  /** Its other files, besides graphs and configuration. */
  readonly files?: RegExp;
  /** The name of its loader. Only the thread that owns the device imports loaders. */
  readonly loader: keyof typeof LOADERS;
  /** Whether it clones voices from the embeddings of an x-vector model (`--speaker-encoder`). */
  readonly takesSpeakerEncoder?: boolean;
}

/** Whether `architectures` in the configuration has a name that matches. */
export function isBuiltAs({ config }: ModelFolder, pattern: RegExp): boolean {
  const value = config["architectures"];
  return Array.isArray(value) &&
    value.some((name) => typeof name === "string" && pattern.test(name));
}

/** Whether the `model_type` is one of these. */
export function isOfType({ config }: ModelFolder, ...types: readonly string[]): boolean {
  return types.includes(String(config["model_type"] ?? ""));
}

/** Whether a folder declares a task, regardless of its architecture. */
export function isForTask({ config }: ModelFolder, task: string): boolean {
  return config["task"] === task;
}

const VOICES = /^(voices\/|speaker_embeddings\.bin$|default_voice\.wav$)/;

/** A family of speech recognition models, recognised by its types. */
export function asr(
  name: string,
  types: readonly string[],
  options: Pick<Family, "graphs" | "files" | "loader">,
): Family {
  return { name, kind: "asr", matches: (folder) => isOfType(folder, ...types), ...options };
}

/**
 * A family of speech synthesis models, recognised by its type. Unless `graphs` is given, it runs all graphs, in dtypes
 * that suit sound.
 */
export function tts(
  type: Family["loader"],
  options: Partial<Pick<Family, "graphs" | "takesSpeakerEncoder">> = {},
): Family {
  return {
    name: type,
    kind: "tts",
    matches: (folder) => isOfType(folder, type),
    graphs: soundGraphs,
    files: VOICES,
    loader: type,
    ...options,
  };
}

function soundGraphs(folder: ModelFolder): WantedGraph[] {
  return allGraphs(MERGED)(folder).map((graph) => ({ ...graph, suits: "sound" }));
}

/** The graphs of a decoder: itself, and token embeddings if they are separate. */
export function textGraphs(folder: ModelFolder): WantedGraph[] {
  const has = (name: string) => listDtypes(folder, name).length > 0 || hasVariant(folder, name);
  const main = { name: !has("model") && has(MERGED) ? MERGED : "model" };
  const needsEmbeddings = main.name === MERGED && has("embed_tokens");
  return needsEmbeddings ? [main, { name: "embed_tokens" }] : [main];
}

/** Types of chat models that hear: those that `vision/sound_processor.ts` prepares sounds for. */
const HEARING_TYPES = ["gemma3n", "gemma4"];

/** The graphs of a decoder, the one that encodes images, and the one that encodes sounds if it is served. */
export function visionGraphs(folder: ModelFolder): WantedGraph[] {
  const hears = isOfType(folder, ...HEARING_TYPES) && hasGraph(folder, "audio_encoder");
  const names = hears ? ["vision_encoder", "audio_encoder"] : ["vision_encoder"];
  return [...textGraphs(folder), ...names.map((name) => ({ name }))];
}

/** Whether a folder is a vision-language decoder, and not an encoder-decoder for images. */
export function isVisionLanguageModel(folder: ModelFolder): boolean {
  return hasGraph(folder, "vision_encoder") && !hasGraph(folder, "encoder_model");
}

/**
 * Whether a language model is trained to embed or to rerank. Such models keep the architecture of the language model,
 * so they are recognised by their names and by a single graph that takes tokens.
 */
export function isDecoderFor(folder: ModelFolder, kind: "embedding" | "rerank"): boolean {
  const name = toModelName(folder.path);
  const isNamed = kind === "rerank" ? /rerank/i.test(name) : /embed/i.test(name);
  return isNamed && isBuiltAs(folder, /ForCausalLM$/) &&
    !hasGraph(folder, "vision_encoder") && !hasGraph(folder, MERGED);
}
