/**
 * Reads onnxruntime-genai's `genai_config.json` of a language model, and converts it to the fields of `config.json`.
 *
 * @see https://onnxruntime.ai/docs/genai/reference/config.html
 * @module
 */
import { isJson, type Json } from "./list_files.ts";

/** Fields of `model` and `model.decoder`, by their names in `config.json`. */
const OF_MODEL = {
  vocab_size: "vocab_size",
  max_position_embeddings: "context_length",
  bos_token_id: "bos_token_id",
  pad_token_id: "pad_token_id",
} as const;
const OF_DECODER = {
  hidden_size: "hidden_size",
  head_dim: "head_size",
  num_attention_heads: "num_attention_heads",
  num_key_value_heads: "num_key_value_heads",
  num_hidden_layers: "num_hidden_layers",
} as const;

/** Parts of `model` that language models do not have. */
const OTHER_PARTS = ["encoder", "vision", "speech", "audio", "encoder_decoder_init"];

/** Adds the missing fields to `config.json`. The tokens that end an answer are those of both files. */
export function withGenaiConfig(config: Json, genai: unknown): Json {
  const model = isJson(genai) && isJson(genai["model"]) ? genai["model"] : undefined;
  if (model === undefined) return config;
  const decoder = isJson(model["decoder"]) ? model["decoder"] : {};
  const pick = (from: Json, names: Readonly<Record<string, string>>) =>
    Object.entries(names).flatMap(([name, own]) =>
      from[own] === undefined ? [] : [[name, from[own]]]
    );
  const type = String(model["type"] ?? "");
  const isText = otherParts(genai).length === 0;
  const ends = [config["eos_token_id"] ?? [], model["eos_token_id"] ?? []].flat();
  return {
    ...type !== "" && { model_type: type, ...isText && { architectures: [`${type}ForCausalLM`] } },
    ...Object.fromEntries([...pick(model, OF_MODEL), ...pick(decoder, OF_DECODER)]),
    ...config,
    ...ends.length > 0 && { eos_token_id: [...new Set(ends)] },
  };
}

/** Parts of a model in onnxruntime-genai's format that language models do not have, such as `vision`. */
export function otherParts(genai: unknown): string[] {
  const model = isJson(genai) && isJson(genai["model"]) ? genai["model"] : {};
  const pipeline = isJson(model["decoder"]) && "pipeline" in model["decoder"] ? ["pipeline"] : [];
  return [...OTHER_PARTS.filter((part) => part in model), ...pipeline];
}

/** The file of the decoder's graph, next to the configuration; `undefined` if it is not given. */
export function readGraphName(genai: unknown): string | undefined {
  const model = isJson(genai) && isJson(genai["model"]) ? genai["model"] : {};
  const name = isJson(model["decoder"]) ? model["decoder"]["filename"] : undefined;
  return typeof name === "string" ? name : undefined;
}
