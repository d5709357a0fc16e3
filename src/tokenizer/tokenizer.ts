/**
 * Runs tokenizers exactly as the Rust library `tokenizers` does, from their `tokenizer.json`.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { BudgetError } from "./regex/matcher.ts";
import { type AddedToken, AddedTokenFinder, readAddedTokens } from "./added_tokens.ts";
import { BpeModel } from "./bpe.ts";
import { ConfigReader } from "./config_reader.ts";
import { type Decoder, readDecoder } from "./decoders.ts";
import { type Normalizer, readNormalizer } from "./normalizers.ts";
import { type PreTokenizer, readPreTokenizer } from "./pre_tokenizers.ts";
import { NO_FRAMES, readFrames, type SpecialFrames, withEnds } from "./special_frame.ts";
import { type TokenModel, UnigramModel, WordLevelModel, WordPieceModel } from "./vocabulary.ts";

type Json = Readonly<Record<string, unknown>>;

/**
 * Converts text to token ids and back.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * const tokenizer = new Tokenizer({
 *   pre_tokenizer: { type: "Whitespace" },
 *   model: { type: "WordLevel", vocab: { hello: 0, world: 1, "?": 2 }, unk_token: "?" },
 * });
 * assert.deepEqual(tokenizer.encode("hello big world"), [0, 2, 1]);
 * assert.equal(tokenizer.decode([0, 1]), "hello world");
 * ```
 */
export class Tokenizer {
  /** The special tokens around texts. */
  readonly frames: SpecialFrames;
  /** Tokens added to the vocabulary, by id. */
  readonly addedTokens: ReadonlyMap<number, AddedToken>;
  readonly #model: TokenModel;
  readonly #normalize: Normalizer | undefined;
  readonly #preTokenize: PreTokenizer | undefined;
  readonly #decode: Decoder | undefined;
  /** Ids of added tokens. The model does not know those that are not in its own vocabulary. */
  readonly #addedIds = new Map<string, number>();
  /**
   * Added tokens as they occur in texts. The texts of tokens that are searched for in normalized text are normalized.
   */
  readonly #addedTexts = new Map<number, string>();
  /** Texts of the special tokens. When they are left out, so is a token of the vocabulary with the same text. */
  readonly #specialTexts: ReadonlySet<string>;
  readonly #numAddedIds: number;
  readonly #finder: AddedTokenFinder;
  /** Finds the added tokens that are searched for in normalized text. */
  readonly #normalizedFinder: AddedTokenFinder;

  /**
   * @param json content of `tokenizer.json`.
   * @param config content of `tokenizer_config.json`.
   * @throws {StartupError} for a part that is damaged or unknown. The message says its path, what was seen and what was
   * wanted.
   */
  constructor(json: Json, config: Json = {}) {
    const reader = new ConfigReader(json, "");
    const read = <T>(name: string, readPart: (part: ConfigReader) => T) =>
      reader.has(name) ? readPart(reader.part(name)) : undefined;
    const unkToken = config["unk_token"];
    this.#model = readTokenModel(
      reader.part("model"),
      typeof unkToken === "string" ? unkToken : undefined,
    );
    this.#normalize = read("normalizer", readNormalizer);
    this.#preTokenize = read("pre_tokenizer", readPreTokenizer);
    this.#decode = read("decoder", readDecoder);
    const added = reader.has("added_tokens")
      ? readAddedTokens(reader.parts("added_tokens"), this.#model.vocabulary)
      : [];
    this.addedTokens = new Map(added.map((token) => [token.id, token]));
    this.#specialTexts = new Set(
      added.filter(({ special }) => special).map(({ content }) => content),
    );
    this.#numAddedIds = added.reduce((most, { id }) => Math.max(most, id + 1), 0);
    for (const { content, id, isNormalized } of added) {
      this.#addedIds.set(content, id);
      const normalized = isNormalized && withinBudget(() => this.#normalize?.(content));
      this.#addedTexts.set(id, normalized || content);
    }
    const find = (isNormalized: boolean) =>
      new AddedTokenFinder(
        added.filter((token) => token.isNormalized === isNormalized)
          .map((token) => [this.#addedTexts.get(token.id)!, token]),
      );
    this.#finder = find(false);
    this.#normalizedFinder = find(true);
    const frames = read("post_processor", readFrames) ?? NO_FRAMES;
    this.frames = withEnds(frames, config, (token) => this.tokenToId(token));
  }

  /** The largest id plus one. */
  get numIds(): number {
    return Math.max(this.#model.vocabulary.numIds, this.#numAddedIds);
  }

  tokenToId(token: string): number | undefined {
    return this.#addedIds.get(token) ?? this.#model.vocabulary.tokenToId(token);
  }

  /** A token's text; `undefined` when there is no such id. */
  idToToken(id: number): string | undefined {
    return this.#addedTexts.get(id) ?? this.#model.vocabulary.idToToken(id);
  }

  /** All tokens, with their ids. Added tokens that the vocabulary also has come twice. */
  *entries(): Generator<[token: string, id: number]> {
    yield* this.#model.vocabulary.entries();
    yield* this.#addedIds.entries();
  }

  /**
   * Encodes a text. Special tokens appear only if the text spells them.
   *
   * @throws {HearthError} `invalid_value` when the tokenizer takes too long on the text.
   */
  encode(text: string): number[] {
    const ids: number[] = [];
    withinBudget(() => this.#encode(text.toWellFormed(), ids));
    return ids;
  }

  /** Encodes a text, and adds the special tokens around it. */
  encodeWhole(text: string): number[] {
    const { before, after } = this.frames.single;
    return [...before, ...this.encode(text), ...after];
  }

  /**
   * Decodes token ids; ids without a token are left out.
   *
   * @throws {HearthError} `invalid_value` when the decoder takes too long on the tokens.
   */
  decode(ids: readonly number[], { skipsSpecial = false }: {
    /** Whether special tokens are left out. */
    readonly skipsSpecial?: boolean;
  } = {}): string {
    const tokens: string[] = [];
    for (const id of ids) {
      const token = this.idToToken(id);
      if (token === undefined || (skipsSpecial && this.#specialTexts.has(token))) continue;
      tokens.push(token);
    }
    const decode = this.#decode;
    return decode === undefined ? tokens.join(" ") : withinBudget(() => decode(tokens)).join("");
  }

  #encode(text: string, ids: number[]): void {
    let isFirst = true;
    for (const section of this.#finder.split(text)) {
      if (typeof section === "number") ids.push(section);
      else this.#encodeSection(section, isFirst, ids);
      isFirst = false;
    }
  }

  #encodeSection(section: string, isFirst: boolean, ids: number[]): void {
    const normalized = this.#normalize?.(section) ?? section;
    for (const part of this.#normalizedFinder.split(normalized)) {
      if (typeof part === "number") ids.push(part);
      else if (part !== "") {
        const words = this.#preTokenize?.({ words: [part], isFirst }).words ?? [part];
        for (const word of words) this.#model.encode(word, ids);
      }
      isFirst = false;
    }
  }
}

function withinBudget<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof BudgetError)) throw error;
    throw new HearthError(
      "invalid_value",
      `The model's tokenizer.json takes too long on this text (${error.message}). ` +
        "Send a text with fewer repetitions.",
      { cause: error },
    );
  }
}

/**
 * Reads `model`. Old files do not give its type.
 *
 * @param unkToken `unk_token` of `tokenizer_config.json`, for models that do not name one.
 * @throws {StartupError} for an unknown or damaged model.
 */
function readTokenModel(reader: ConfigReader, unkToken: string | undefined): TokenModel {
  switch (reader.type || guessType(reader)) {
    case "BPE":
      return new BpeModel(reader);
    case "WordPiece":
      return new WordPieceModel(reader);
    case "WordLevel":
      return new WordLevelModel(reader, unkToken);
    case "Unigram":
      return new UnigramModel(reader);
    default:
      throw reader.unknownType();
  }
}

function guessType(reader: ConfigReader): string {
  if (reader.has("merges")) return "BPE";
  if (Array.isArray(reader.raw("vocab"))) return "Unigram";
  return reader.has("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}
