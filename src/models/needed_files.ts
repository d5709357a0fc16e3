/**
 * Which files of a model are needed to serve it in one dtype, and which of a repository's many are not.
 *
 * @module
 */
import type { DeviceClass } from "../backend/device_class.ts";
import type { Dtype, ModelKind } from "../config.ts";
import { StartupError } from "../errors.ts";
import type { NeededFiles } from "../hub/acquire.ts";
import {
  chooseDtype,
  dtypesOf,
  externalDataFiles,
  graphFile,
  type ModelFolder,
  PREFERRED,
} from "../hub/model_folder.ts";
import { kindOf } from "./kind.ts";

/** What is wished for, and on what. */
export interface NeedOptions {
  readonly device: DeviceClass;
  readonly dtype?: Dtype | undefined;
  readonly kind?: ModelKind | undefined;
}

/** What a model needs. */
export interface ModelFiles extends NeededFiles {
  readonly kind: ModelKind;
  /** Of the main graph. */
  readonly dtype: Dtype;
}

/** Configuration, tokenizer, templates. */
const SETTINGS_FILES =
  /^((generation_|tokenizer_|preprocessor_|processor_|video_preprocessor_)?config|tokenizer|special_tokens_map|added_tokens|modules|sentence_bert_config|config_sentence_transformers)\.json$|^chat_template\.(jinja|json)$|^\d+_[A-Z]\w*\/config\.json$/;
const VOICES = /^(voices\/|speaker_embeddings\.bin$|default_voice\.wav$)/;
const DTYPE_SUFFIX = /(_fp16|_q4f16|_q4|_int8|_uint8|_quantized|_bnb4)?\.onnx$/;
/** Kinds that run one graph, by its possible names. */
const SINGLE_GRAPHS: Partial<Record<ModelKind, readonly string[]>> = {
  text: ["model", "decoder_model_merged"],
  embedding: ["model"],
  rerank: ["model"],
  matting: ["model"],
};
/** Half decoders that a merged one stands for. */
const MERGED = "decoder_model_merged";
/** Writes tokens of sound. */
const LANGUAGE_MODEL = "language_model";
/** By far the largest of a model's graphs: their dtype is the model's. */
const DECODERS = [MERGED, LANGUAGE_MODEL];
const HALVES = ["decoder_model", "decoder_with_past_model"];
/** Models that see may hear too, which is not asked of them. */
const HEARING = "audio_encoder";
const BATCHED: ReadonlySet<ModelKind> = new Set(["embedding", "matting", "rerank"]);

/**
 * Chooses among a folder's or a repository's files.
 *
 * @throws {StartupError} when its kind cannot be told, or it has no graph of the dtype asked for.
 */
export function chooseFiles(folder: ModelFolder, options: NeedOptions): ModelFiles {
  const kind = options.kind ?? kindOf(folder);
  const names = graphNames(folder, kind);
  const graphs: string[] = [];
  const missed: string[] = [];
  const dtypes = names.map((graph) => {
    const device = preferenceOf(graph, { kind, device: options.device });
    // Only the first has to be of the dtype asked for: its companions often come in fewer.
    const isHere = options.dtype !== undefined && dtypesOf(folder, graph).includes(options.dtype);
    const wish = graph === names[0] || isHere ? options.dtype : undefined;
    const dtype = chooseDtype(folder, { graph, device, dtype: wish });
    graphs.push(graphFile(graph, dtype));
    if (options.dtype === undefined) missed.push(...betterThan(folder, { graph, dtype, device }));
    return dtype;
  });
  const settings = [...folder.files].filter((file) =>
    SETTINGS_FILES.test(file) || (kind === "tts" && VOICES.test(file))
  );
  const data = graphs.flatMap((graph) => externalDataFiles(folder, graph));
  return { kind, dtype: dtypes[0]!, files: [...settings, ...data, ...graphs], graphs, missed };
}

/** Which dtypes come first. */
function preferenceOf(
  graph: string,
  { kind, device }: { readonly kind: ModelKind; readonly device: DeviceClass },
): keyof typeof PREFERRED {
  // What a language model writes is no sound yet.
  if (kind === "tts" && graph !== LANGUAGE_MODEL) return "sound";
  return device === "cpu" && BATCHED.has(kind) ? "cpuInBatches" : device;
}

function betterThan(
  folder: ModelFolder,
  { graph, dtype, device }: { graph: string; dtype: Dtype; device: keyof typeof PREFERRED },
): string[] {
  const preferred: readonly Dtype[] = PREFERRED[device];
  const rank = preferred.indexOf(dtype);
  const better = rank < 0 ? preferred : preferred.slice(0, rank);
  return better.map((each) => graphFile(graph, each)).filter((file) => !folder.files.has(file));
}

/** The name of a graph, which is the same in every dtype: `onnx/model_q4.onnx` is `model`. */
export function graphNameOf(path: string): string {
  return path.slice("onnx/".length).replace(DTYPE_SUFFIX, "");
}

/** The graphs that run, the main one first. */
function graphNames(folder: ModelFolder, kind: ModelKind): string[] {
  const there = new Set(
    [...folder.files]
      .filter((file) => /^onnx\/[^/]+\.onnx$/.test(file))
      .map(graphNameOf),
  );
  const single = SINGLE_GRAPHS[kind];
  const isNeeded = (name: string) =>
    !(there.has(MERGED) && HALVES.includes(name)) && !(kind === "vision" && name === HEARING);
  const found = single === undefined
    ? [...there].filter(isNeeded).sort(byDecoder)
    : single.filter((name) => there.has(name)).slice(0, 1);
  if (found.length > 0) return found;
  throw new StartupError(
    `${folder.path} has no ${
      (single ?? ["*"]).map((name) => `onnx/${name}*.onnx`).join(" or ")
    }: Hearth runs models in ONNX form. Look for one whose name ends in -ONNX.`,
  );
}

function byDecoder(a: string, b: string): number {
  return Number(DECODERS.includes(b)) - Number(DECODERS.includes(a)) || (a < b ? -1 : 1);
}
