import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { TokenTexts } from "../../../src/models/text/tokenizer_files.ts";
import { byteFallbackTokenizer, unigramTokenizer } from "./made_tokenizers.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";

/** Tokenizers with every kind of decoder: byte-level, byte fallback, Metaspace, WordPiece. */
export const TOKENIZER_FOLDERS = [
  "models/hearth-demo-chat",
  "made/byte-fallback",
  "made/unigram",
  "../shared/models/chat-gptneo-3m",
  "models/hearth-demo-asr",
  "models/hearth-demo-embed",
  "../shared/models/embed-m2v",
  "../shared/models/stories260k-llama",
  "../shared/tokenizers/all-MiniLM-L6-v2",
  "../shared/tokenizers/qwen3",
  "../shared/tokenizers/smollm-360m-instruct",
  "../shared/tokenizers/whisper-tiny",
];

type Json = Readonly<Record<string, unknown>>;

const MADE: Readonly<Record<string, () => Json>> = {
  "made/byte-fallback": byteFallbackTokenizer,
  "made/unigram": unigramTokenizer,
};

/** A tokenizer and the bytes of its tokens. */
export interface LoadedTokenizer {
  readonly tokenizer: Tokenizer;
  readonly texts: TokenTexts;
  readonly vocabSize: number;
}

/** Registers a test that reads a tokenizer; it is skipped if the folder is missing. */
export function tokenizerTest(
  name: string,
  folder: string,
  test: (loaded: LoadedTokenizer) => void,
): void {
  const make = MADE[folder];
  if (make !== undefined) {
    Deno.test(`${name} (${folder})`, () => test(describe(make(), {})));
    return;
  }
  const path = fileURLToPath(new URL(`../../../${folder}`, import.meta.url));
  const ignore = !existsSync(path);
  const shared = folder.replace("../shared/", "");
  const note = unlessThere(!ignore, shared, "a published tokenizer");
  const fullName = `${name} (${folder.split("/").at(-1)})${note}`;
  Deno.test({ name: fullName, ignore, fn: () => test(load(path)) });
}

function load(path: string): LoadedTokenizer {
  const read = (file: string) => JSON.parse(Deno.readTextFileSync(`${path}/${file}`));
  return describe(read("tokenizer.json"), read("tokenizer_config.json"));
}

function describe(json: Json, config: Json): LoadedTokenizer {
  const tokenizer = new Tokenizer(json, config);
  const texts = new TokenTexts(tokenizer, json["decoder"]);
  return { tokenizer, texts, vocabSize: tokenizer.numIds };
}
