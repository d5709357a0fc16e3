/**
 * Reads a folder's tokenizer, for models of any kind: those that do not chat need no more of it.
 *
 * @module
 */
import { Tokenizer } from "@huggingface/tokenizers";
import { type Json, type ModelFolder, readJson, readOptionalJson } from "../hub/model_folder.ts";

/** The two files, and the tokenizer made of them. */
export interface TokenizerFiles {
  readonly tokenizer: Tokenizer;
  /** `tokenizer.json`. */
  readonly json: Json;
  /** `tokenizer_config.json`. */
  readonly config: Json;
}

/** Reads `tokenizer.json` and `tokenizer_config.json`. @throws {StartupError} when the former is missing. */
export async function readTokenizer(folder: ModelFolder): Promise<TokenizerFiles> {
  const json = await readJson(folder.path, "tokenizer.json");
  const config = await readOptionalJson(folder, "tokenizer_config.json");
  return { tokenizer: new Tokenizer(json, config), json, config };
}

/** Number of token ids; scans the vocabulary. */
export function countTokenIds(tokenizer: Tokenizer): number {
  return 1 + tokenizer.get_vocab(true).values().reduce((a, b) => Math.max(a, b));
}
