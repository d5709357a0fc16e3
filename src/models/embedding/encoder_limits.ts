/**
 * The maximum text length of an encoder.
 *
 * @module
 */
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";

/** Models that number positions from after the padding token's id. */
const POSITIONS_AFTER_PADDING = new Set([
  "roberta",
  "xlm-roberta",
  "xlm-roberta-xl",
  "camembert",
  "mpnet",
  "longformer",
]);

/** Tokenizers write sizes from here on for no limit. */
const NO_LIMIT = 1e9;

/** Most tokens of one input, special ones included; `undefined` where the folder gives no limit. */
export async function maxTokensOf(folder: ModelFolder): Promise<number | undefined> {
  const { config } = folder;
  const sentence = await readOptionalJson(folder, "sentence_bert_config.json");
  const tokenizer = await readOptionalJson(folder, "tokenizer_config.json");
  const limits = [
    positionsOf(config),
    sentence["max_seq_length"],
    tokenizer["model_max_length"],
  ].filter((limit) => typeof limit === "number" && limit > 0 && limit < NO_LIMIT);
  return limits.length === 0 ? undefined : Math.min(...limits as number[]);
}

function positionsOf(config: Json): unknown {
  const positions = config["max_position_embeddings"] ?? config["n_positions"];
  if (typeof positions !== "number") return undefined;
  if (!POSITIONS_AFTER_PADDING.has(String(config["model_type"]))) return positions;
  const padding = config["pad_token_id"];
  return positions - (typeof padding === "number" ? padding : 1) - 1;
}
