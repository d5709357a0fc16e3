/**
 * Makes texts with a given number of tokens.
 *
 * @module
 */
import { Random } from "./random.ts";
import { readVocabulary } from "./vocabulary.ts";

/** Tokens that the chat template adds to one message: also the answer's role, one token, and its empty thought. */
const TEMPLATE_TOKENS = 12;
/** A role of the template; two tokens in a small vocabulary. */
const ROLE = "assistant";

/** Writes words that are one token each in Qwen3's vocabulary. */
export class PromptMaker {
  readonly #words: readonly string[];
  readonly #templateTokens: number;

  private constructor(tokens: readonly string[]) {
    // Ġ stands for the space before a word.
    const words = tokens.filter((token) => /^Ġ[a-z]{4,7}$/.test(token));
    this.#words = words.slice(0, 2000).map((word) => word.slice(1));
    this.#templateTokens = TEMPLATE_TOKENS + (tokens.includes(ROLE) ? 0 : 1);
  }

  /** Reads the vocabulary of `size` tokens. */
  static async create(size: number): Promise<PromptMaker> {
    const { tokens } = await readVocabulary(size);
    return new PromptMaker(tokens);
  }

  /** Makes a message whose prompt has `length` tokens. Different keys give different random words. */
  make(length: number, key: string): string {
    const seed = [...`${length} ${key}`].reduce(
      (hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 0x01000193),
      0x811c9dc5,
    );
    const picks = new Uint32Array(
      new Random(seed || 1).bytes(4 * (length - this.#templateTokens)).buffer,
    );
    // The first word has no space before it, and might be another token. So it is replaced by a letter, which is always
    // one token.
    const [first = 0, ...rest] = picks;
    const letter = String.fromCharCode(65 + first % 26);
    return [letter, ...rest.map((pick) => this.#words[pick % this.#words.length]!)].join(" ");
  }
}
