/**
 * Makes texts with a given number of tokens.
 *
 * @module
 */
import { join } from "node:path";
import { Random } from "./random.ts";
import { TOKENIZERS } from "./twin.ts";

/** Tokens that the chat template adds to one message, including an answer's empty thoughts. */
const TEMPLATE_TOKENS = 12;

/** Writes words that are one token each in Qwen3's vocabulary. */
export class PromptMaker {
  readonly #words: readonly string[];

  private constructor(words: readonly string[]) {
    this.#words = words;
  }

  /** Reads the vocabulary. */
  static async create(): Promise<PromptMaker> {
    const { model } = JSON.parse(
      await Deno.readTextFile(join(TOKENIZERS, "qwen3", "tokenizer.json")),
    );
    // Ġ stands for the space before a word.
    const words = Object.keys(model.vocab).filter((token) => /^Ġ[a-z]{4,7}$/.test(token));
    return new PromptMaker(words.slice(0, 2000).map((word) => word.slice(1)));
  }

  /** Makes a message whose prompt has `length` tokens. Messages of other keys have other beginnings. */
  make(length: number, key: string): string {
    const seed = [...`${length} ${key}`].reduce(
      (hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 0x01000193),
      0x811c9dc5,
    );
    const picks = new Uint32Array(
      new Random(seed || 1).bytes(4 * (length - TEMPLATE_TOKENS)).buffer,
    );
    // The first word has no space before it, and might be another token. So it is replaced by a letter, which is always
    // one token.
    const [first = 0, ...rest] = picks;
    const letter = String.fromCharCode(65 + first % 26);
    return [letter, ...rest.map((pick) => this.#words[pick % this.#words.length]!)].join(" ");
  }
}
