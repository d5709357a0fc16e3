/**
 * Sizes of a folder's text model.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";

/** Upper bound of a size, far more than any model has. */
const MAX_SIZE = 2 ** 24;

/** Defaults of Python's transformers, which omits these values from `config.json`. */
const DEFAULT_CONTEXT_LENGTHS: Readonly<Record<string, number>> = {
  gemma: 8192,
  gemma2: 8192,
  gemma3_text: 131_072,
  gpt_neo: 2048,
  gpt_neox: 2048,
  gpt2: 1024,
  llama: 2048,
  mistral: 131_072,
  opt: 2048,
  phi: 2048,
  phi3: 4096,
  qwen2: 32_768,
  qwen3: 32_768,
};

/**
 * Most tokens of a sequence that a folder's text model was made for.
 *
 * @throws {StartupError} when neither `config.json` nor the model's type gives it.
 */
export function readContextLength(folder: ModelFolder): number {
  return findContextLength(folder) ?? refuse(folder, "max_position_embeddings or n_positions");
}

/** Like {@linkcode readContextLength}, but `undefined` if neither gives it. */
export function findContextLength(folder: ModelFolder): number | undefined {
  const type = String(getTextConfig(folder)["model_type"] ?? folder.config["model_type"]);
  return readSize(folder, [
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "seq_length",
  ]) ?? DEFAULT_CONTEXT_LENGTHS[type];
}

/**
 * Number of tokens in a folder's vocabulary.
 *
 * @throws {StartupError} when `config.json` does not give it.
 */
export function readVocabSize(folder: ModelFolder): number {
  return readSize(folder, ["vocab_size"]) ?? refuse(folder, "vocab_size");
}

/** Sizes of a text model's keys and values, as far as `config.json` gives them. */
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

/** A size that `config.json` gives under one of `names`, at its top or in its text model's part. */
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
