import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Tokenizer } from "@huggingface/tokenizers";

/** Tokenizers of every decoder there is: byte-level, with and without clean-up, byte fallback, WordPiece. */
export const TOKENIZER_FOLDERS = [
  "models/hearth-demo-chat",
  "../shared/models/chat-gptneo-3m",
  "../shared/models/hearth-demo-asr",
  "../shared/models/hearth-demo-embed",
  "../shared/models/embed-m2v",
  "../shared/models/stories260k-llama",
  "../shared/tokenizers/all-MiniLM-L6-v2",
  "../shared/tokenizers/qwen3",
  "../shared/tokenizers/smollm-360m-instruct",
  "../shared/tokenizers/whisper-tiny",
];

/** A tokenizer and what `tokenizer.json` says of its decoder. */
export interface LoadedTokenizer {
  readonly tokenizer: Tokenizer;
  readonly decoder: unknown;
  readonly vocabSize: number;
}

/** Registers a test that reads a tokenizer; it is skipped where the folder is not there. */
export function tokenizerTest(
  name: string,
  folder: string,
  test: (loaded: LoadedTokenizer) => void,
): void {
  const path = fileURLToPath(new URL(`../../../${folder}`, import.meta.url));
  const ignore = !existsSync(path);
  const fullName = `${name} (${folder.split("/").at(-1)}${ignore ? ": no such folder" : ""})`;
  Deno.test({ name: fullName, ignore, fn: () => test(load(path)) });
}

function load(path: string): LoadedTokenizer {
  const read = (file: string) => JSON.parse(Deno.readTextFileSync(`${path}/${file}`));
  const json = read("tokenizer.json");
  const tokenizer = new Tokenizer(json, read("tokenizer_config.json"));
  return { tokenizer, decoder: json.decoder, vocabSize: tokenizer.get_vocab().size };
}
