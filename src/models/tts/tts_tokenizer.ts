/**
 * A speech model's own tokenizer: characters or phonemes to ids.
 *
 * @module
 */
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { readTokenizer } from "../text/tokenizer_files.ts";

interface TtsTokenizer {
  /** @returns none if the text has no letter or digit that the tokenizer knows. */
  encode(text: string): readonly number[];
  /** `tokenizer_config.json`. */
  readonly config: Json;
}

/** @throws {StartupError} when the folder has no tokenizer. */
export async function loadTtsTokenizer(folder: ModelFolder): Promise<TtsTokenizer> {
  const { tokenizer, config } = await readTokenizer(folder);
  const silent = ["pad_token", "unk_token"].map((name) => config[name]);
  const spoken = new Set<number>();
  for (const [token, id] of tokenizer.entries()) {
    if (tokenizer.addedTokens.has(id) || silent.includes(token)) continue;
    if (/[\p{L}\p{N}]/u.test(token)) spoken.add(id);
  }
  return {
    config,
    encode: (text) => {
      const ids = tokenizer.encodeWhole(text);
      return ids.some((id) => spoken.has(id)) ? ids : [];
    },
  };
}
