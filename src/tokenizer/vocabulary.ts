/**
 * The vocabulary of a tokenizer, and the models other than byte-pair encoding: WordPiece, WordLevel and Unigram.
 *
 * @module
 */
import type { ConfigReader } from "./config_reader.ts";
import { StartupError } from "../base/errors.ts";
import { BudgetError } from "./regex/matcher.ts";

/** Maps tokens to ids and back. */
export class Vocabulary {
  readonly #ids = new Map<string, number>();
  readonly #tokens: (string | undefined)[] = [];
  #numEntries = 0;

  /** The largest id plus one. */
  get numIds(): number {
    return this.#tokens.length;
  }

  /** Number of entries; a token that is listed twice counts twice. */
  get numEntries(): number {
    return this.#numEntries;
  }

  /** @throws {StartupError} when the id is invalid. */
  set(token: string, id: unknown): void {
    if (!isTokenId(id)) {
      throw new StartupError(
        `tokenizer.json: model.vocab[${
          JSON.stringify(token)
        }]: want a whole number from 0 to ${MAX_TOKEN_ID}, saw ${JSON.stringify(id)}.`,
      );
    }
    this.#numEntries++;
    this.#ids.set(token, id);
    // Most files list tokens in the order of their ids; pushing them keeps the array without holes.
    if (id === this.#tokens.length) this.#tokens.push(token);
    else {
      while (this.#tokens.length <= id) this.#tokens.push(undefined);
      this.#tokens[id] = token;
    }
  }

  tokenToId(token: string): number | undefined {
    return this.#ids.get(token);
  }

  idToToken(id: number): string | undefined {
    return this.#tokens[id];
  }

  /** The length of the longest token, in UTF-16 units. */
  measureLongest(): number {
    let longest = 0;
    for (const token of this.#ids.keys()) longest = Math.max(longest, token.length);
    return longest;
  }

  entries(): MapIterator<[token: string, id: number]> {
    return this.#ids.entries();
  }

  /** Ids of the tokens `<0x00>` to `<0xFF>`, by byte; -1 if there is none. */
  byteIds(): Int32Array {
    return Int32Array.from(
      { length: 256 },
      (_, byte) => this.tokenToId(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`) ?? -1,
    );
  }
}

/** Largest token id, far above any vocabulary's. It bounds the arrays whose length is the largest id. */
export const MAX_TOKEN_ID = 2 ** 24;

function isTokenId(id: unknown): id is number {
  return Number.isInteger(id) && (id as number) >= 0 && (id as number) <= MAX_TOKEN_ID;
}

/**
 * Reads `vocab`, an object of ids by token.
 *
 * @throws {StartupError} when it is not an object.
 */
export function readVocabulary(reader: ConfigReader): Vocabulary {
  reader.part("vocab");
  const vocabulary = new Vocabulary();
  const ids = reader.raw("vocab") as Readonly<Record<string, unknown>>;
  // This loop takes half as long as Object.keys or Object.entries. A vocabulary has 30,000 to 260,000 tokens.
  // deno-lint-ignore guard-for-in -- a file's objects inherit nothing that is listed
  for (const token in ids) vocabulary.set(token, ids[token]);
  return vocabulary;
}

/** Splits words into tokens. */
export interface TokenModel {
  readonly vocabulary: Vocabulary;
  /** Appends the ids of a word. */
  encode(word: string, ids: number[]): void;
}

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

/** The score of an unknown character is the least likely token's score minus this. */
const UNK_PENALTY = 10;

/**
 * A word may take this many steps, and {@linkcode MAX_STEPS_PER_CHAR} more for each UTF-16 unit. SentencePiece's own
 * tokens have at most 16 characters.
 */
const MAX_STEPS = 1_000_000;
const MAX_STEPS_PER_CHAR = 100;

const encoder = new TextEncoder();

/** SentencePiece's unigram model: splits a word into the most likely sequence of tokens (Kudo 2018). */
export class UnigramModel implements TokenModel {
  readonly vocabulary = new Vocabulary();
  readonly #scores: number[] = [];
  readonly #root: TrieNode = { id: -1, children: undefined };
  readonly #unkId: number | undefined;
  readonly #unkScore: number;
  readonly #byteIds: Int32Array | undefined;

  constructor(reader: ConfigReader) {
    const pieces = reader.array("vocab");
    let least = Infinity;
    pieces.forEach((piece, id) => {
      const [token, score] = Array.isArray(piece) ? piece : [];
      if (typeof token !== "string" || typeof score !== "number") {
        throw new StartupError(
          `tokenizer.json: model.vocab[${id}]: want a token and its score, saw ${
            JSON.stringify(piece)
          }.`,
        );
      }
      this.vocabulary.set(token, id);
      this.#scores.push(score);
      least = Math.min(least, score);
      this.#addToTrie(token, id);
    });
    this.#unkScore = least - UNK_PENALTY;
    if (reader.has("unk_id")) this.#unkId = reader.number("unk_id");
    if (reader.boolean("byte_fallback", false)) this.#byteIds = this.vocabulary.byteIds();
  }

  encode(word: string, ids: number[]): void {
    let unknown = "";
    const endUnknown = () => {
      if (unknown !== "") this.#pushUnknown(unknown, ids);
      unknown = "";
    };
    for (const { start, end, id } of this.#bestPath(word)) {
      // Consecutive unknown characters are one token.
      if (id < 0 || id === this.#unkId) unknown += word.slice(start, end);
      else {
        endUnknown();
        ids.push(id);
      }
    }
    endUnknown();
  }

  #pushUnknown(text: string, ids: number[]): void {
    const bytes = this.#byteIds && encoder.encode(text);
    const known = this.vocabulary.tokenToId(text);
    if (known !== undefined) ids.push(known);
    else if (bytes?.every((byte) => this.#byteIds![byte]! >= 0)) {
      for (const byte of bytes) ids.push(this.#byteIds![byte]!);
    } else if (this.#unkId !== undefined) ids.push(this.#unkId);
  }

  /** Finds the best path by Viterbi's algorithm. An id of -1 is an unknown character. */
  #bestPath(word: string): { start: number; end: number; id: number }[] {
    const scores = new Float64Array(word.length + 1);
    const starts = new Int32Array(word.length + 1).fill(-1);
    const ids = new Int32Array(word.length + 1);
    const offer = (start: number, end: number, { id, score }: { id: number; score: number }) => {
      const total = scores[start]! + score;
      if (starts[end]! >= 0 && total <= scores[end]!) return;
      scores[end] = total;
      starts[end] = start;
      ids[end] = id;
    };
    let numSteps = 0;
    for (let start = 0; start < word.length;) {
      const charEnd = start + (word.codePointAt(start)! > 0xffff ? 2 : 1);
      let isKnown = false;
      let node: TrieNode | undefined = this.#root;
      for (let end = start; end < word.length; end++) {
        node = node.children?.get(word.charCodeAt(end));
        numSteps++;
        if (node === undefined) break;
        if (node.id < 0) continue;
        offer(start, end + 1, { id: node.id, score: this.#scores[node.id]! });
        if (end + 1 === charEnd) isKnown = true;
      }
      if (numSteps > MAX_STEPS + MAX_STEPS_PER_CHAR * word.length) {
        throw new BudgetError("too many long tokens match");
      }
      if (!isKnown) offer(start, charEnd, { id: -1, score: this.#unkScore });
      start = charEnd;
    }
    const path: { start: number; end: number; id: number }[] = [];
    for (let end = word.length; end > 0; end = starts[end]!) {
      path.push({ start: starts[end]!, end, id: ids[end]! });
    }
    return path.reverse();
  }

  #addToTrie(token: string, id: number): void {
    let node = this.#root;
    for (let at = 0; at < token.length; at++) {
      const unit = token.charCodeAt(at);
      const children: Map<number, TrieNode> = node.children ??= new Map();
      let child = children.get(unit);
      if (child === undefined) children.set(unit, child = { id: -1, children: undefined });
      node = child;
    }
    node.id = id;
  }
}

/** A node of a trie over UTF-16 units; `id` is -1 if no token ends here. */
interface TrieNode {
  id: number;
  children: Map<number, TrieNode> | undefined;
}
