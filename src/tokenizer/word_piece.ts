import type { ConfigReader } from "./config_reader.ts";
import { readVocabulary, type TokenModel, type Vocabulary } from "./vocabulary.ts";

/** BERT's model: takes the longest token that a word begins with, then the longest for the rest (Wu et al. 2016). */
export class WordPieceModel implements TokenModel {
  readonly vocabulary: Vocabulary;
  readonly #unkId: number | undefined;
  readonly #prefix: string;
  readonly #maxChars: number;
  readonly #longest: number;

  constructor(reader: ConfigReader) {
    this.vocabulary = readVocabulary(reader);
    this.#unkId = this.vocabulary.tokenToId(reader.string("unk_token", "[UNK]"));
    this.#prefix = reader.string("continuing_subword_prefix", "##");
    this.#maxChars = reader.number("max_input_chars_per_word", 100);
    this.#longest = Math.max(1, this.vocabulary.measureLongest());
  }

  encode(word: string, ids: number[]): void {
    const numBefore = ids.length;
    const chars = Array.from(word);
    let start = 0;
    if (chars.length <= this.#maxChars) {
      while (start < chars.length) {
        const end = this.#appendLongest(chars, start, ids);
        if (end === start) break;
        start = end;
      }
    }
    if (start === chars.length) return;
    ids.length = numBefore;
    if (this.#unkId !== undefined) ids.push(this.#unkId);
  }

  /**
   * Appends the longest token at `start`.
   *
   * @returns its end; `start` if there is none.
   */
  #appendLongest(chars: readonly string[], start: number, ids: number[]): number {
    const prefix = start === 0 ? "" : this.#prefix;
    for (let end = Math.min(chars.length, start + this.#longest); end > start; end--) {
      const id = this.vocabulary.tokenToId(prefix + chars.slice(start, end).join(""));
      if (id === undefined) continue;
      ids.push(id);
      return end;
    }
    return start;
  }
}

/** A model in which each word is one token. */
export class WordLevelModel implements TokenModel {
  readonly vocabulary: Vocabulary;
  readonly #unkId: number | undefined;

  constructor(reader: ConfigReader, unkToken: string | undefined) {
    this.vocabulary = readVocabulary(reader);
    this.#unkId = this.vocabulary.tokenToId(reader.optionalString("unk_token") ?? unkToken ?? "");
  }

  encode(word: string, ids: number[]): void {
    const id = this.vocabulary.tokenToId(word) ?? this.#unkId;
    if (id !== undefined) ids.push(id);
  }
}
