/**
 * Reads a folder's tokenizer, for models of any kind: those that do not chat need no more of it.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import {
  type Json,
  locate,
  type ModelFolder,
  readOptionalJson,
  readSettings,
} from "../../hub/model_folder.ts";
import { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { requireFields } from "../folder/field_rules.ts";
import { TOKENIZER, TOKENIZER_CONFIG } from "./tokenizer_rules.ts";

/** The two files, and the tokenizer made of them. */
export interface TokenizerFiles {
  readonly tokenizer: Tokenizer;
  /** `tokenizer.json`. */
  readonly json: Json;
  /** `tokenizer_config.json`. */
  readonly config: Json;
}

/**
 * Reads `tokenizer.json` and `tokenizer_config.json`.
 *
 * @throws {StartupError} when the former is missing; naming the file, and the field, when one is not as it should be.
 */
export async function readTokenizer(folder: ModelFolder): Promise<TokenizerFiles> {
  const json = await readSettings(folder, "tokenizer.json");
  const config = await readOptionalJson(folder, "tokenizer_config.json");
  const place = (name: string) => join(folder.path, locate(folder, name) ?? name);
  const path = place("tokenizer.json");
  requireFields(json, TOKENIZER, path);
  requireFields(config, TOKENIZER_CONFIG, place("tokenizer_config.json"));
  try {
    return { tokenizer: new Tokenizer(json, config), json, config };
  } catch (cause) {
    if (cause instanceof StartupError) {
      // The message begins with the name of the file.
      throw new StartupError(`${folder.path}/${cause.message}`, { cause });
    }
    throw new StartupError(`${path} is not served: ${(cause as Error).message}`, { cause });
  }
}
