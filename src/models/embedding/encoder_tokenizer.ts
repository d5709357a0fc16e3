/**
 * Texts and pairs of texts as an encoder reads them: token ids between the special tokens of its tokenizer.
 *
 * @module
 */
import type { Tokenizer } from "@huggingface/tokenizers";
import { type EncodeOptions, type LengthOptions, LongTextEncoder } from "../long_text_encoder.ts";
import { isJson, type Json, type ModelFolder, numberAt } from "../../hub/model_folder.ts";
import { findSpecialFrame, type SpecialFrame, startsWith } from "../special_frame.ts";
import { TokenTexts } from "../token_text.ts";
import { countTokenIds, readTokenizer, type TokenizerFiles } from "../tokenizer_files.ts";

/** A text, or two, ready for the model. */
export interface EncodedText {
  readonly ids: readonly number[];
  /** Ids from here on are of token type 1; all are of type 0 if absent. */
  readonly typeOneFrom?: number | undefined;
  /** Tokens from here on count for pooling; all if absent. */
  readonly countsFrom?: number | undefined;
}

/** The special tokens around and between two texts. */
interface PairFrame extends SpecialFrame {
  readonly between: readonly number[];
  /** How many of `between` are of token type 0; the rest and the second text are of type 1. Absent: all are of type 0. */
  readonly numBetweenTypeZero?: number | undefined;
}

const ALL: LengthOptions = { maxTokens: undefined, mayCut: false, what: "The text" };
const PROBES = ["a", "the dog"] as const;

export class EncoderTokenizer {
  /** Number of token ids. */
  readonly vocabSize: number;
  readonly padTokenId: number;
  /** The bytes of single tokens. */
  readonly tokenTexts: TokenTexts;
  readonly #tokenizer: Tokenizer;
  readonly #long: LongTextEncoder;
  readonly #single: SpecialFrame;
  readonly #pair: PairFrame | undefined;
  /** Left out of texts. */
  readonly #ignoredId: number | undefined;

  private constructor(
    { tokenizer, json }: TokenizerFiles,
    { padTokenId, isPlain }: { readonly padTokenId: number; readonly isPlain: boolean },
  ) {
    this.#tokenizer = tokenizer;
    this.tokenTexts = new TokenTexts(tokenizer, json["decoder"]);
    this.#long = new LongTextEncoder(tokenizer);
    this.padTokenId = padTokenId;
    this.vocabSize = countTokenIds(tokenizer);
    this.#single = isPlain ? { before: [], after: [] } : findSpecialFrame(tokenizer);
    this.#pair = isPlain ? undefined : findPairFrame(tokenizer);
    this.#ignoredId = isPlain ? findUnknownId(tokenizer, json) : undefined;
  }

  /**
   * Reads `tokenizer.json` and `tokenizer_config.json`.
   *
   * @param options.isPlain whether texts get no special tokens, and lose those that the model does not know.
   * @throws {StartupError} when the former is missing.
   */
  static async load(
    folder: ModelFolder,
    { isPlain = false }: { readonly isPlain?: boolean } = {},
  ): Promise<EncoderTokenizer> {
    const files = await readTokenizer(folder);
    const { tokenizer, config } = files;
    const padToken = config["pad_token"];
    const padName = typeof padToken === "string"
      ? padToken
      : (padToken as { content?: string } | null | undefined)?.content;
    const padTokenId = tokenizer.token_to_id(padName ?? "") ??
      numberAt(folder.config, "pad_token_id") ?? 0;
    return new EncoderTokenizer(files, { padTokenId, isPlain });
  }

  /** Whether there are special tokens between two texts. */
  get encodesPairs(): boolean {
    return this.#pair !== undefined;
  }

  /** The special tokens that {@linkcode frame} adds. */
  get numSpecial(): number {
    return this.#single.before.length + this.#single.after.length;
  }

  /** Those of them that come after the text. */
  get numSpecialAfter(): number {
    return this.#single.after.length;
  }

  /** The special tokens that {@linkcode framePair} adds. */
  get numSpecialOfPair(): number {
    const { before, between, after } = this.#pair!;
    return before.length + between.length + after.length;
  }

  /**
   * The tokens of a text, without special ones; all of them, unless `length` says how many are wanted.
   *
   * @throws {HearthError} `context_length_exceeded` if there are far more than `length` allows.
   */
  encode(text: string, length: LengthOptions = ALL): number[] {
    const ids = this.#long.encode(text, length);
    return this.#ignoredId === undefined ? ids : ids.filter((id) => id !== this.#ignoredId);
  }

  /** All tokens of a text, however long, in turns with the thread's other work. */
  async encodeInTurns(text: string, { hasSpecial, signal }: EncodeOptions): Promise<number[]> {
    const ids = await this.#long.encodeInTurns(text, ALL, signal);
    return hasSpecial ? [...this.frame(ids).ids] : ids;
  }

  /** The text of tokens, special ones as they are spelled. */
  decodeAll(ids: number[]): string {
    return this.#tokenizer.decode(ids);
  }

  /** Removes the special tokens at the ends of `ids`, if both are present. */
  unframe(ids: readonly number[]): readonly number[] {
    const { before, after } = this.#single;
    const end = ids.length - after.length;
    const isFramed = ids.length >= this.numSpecial && startsWith(ids, before) &&
      startsWith(ids.slice(end), after);
    return isFramed ? ids.slice(before.length, end) : ids;
  }

  /** Puts the special tokens around the tokens of a text. */
  frame(ids: readonly number[]): EncodedText {
    return { ids: [...this.#single.before, ...ids, ...this.#single.after] };
  }

  /** Puts the special tokens around and between the tokens of two texts. */
  framePair(first: readonly number[], second: readonly number[]): EncodedText {
    const { before, between, after, numBetweenTypeZero } = this.#pair!;
    return {
      ids: [...before, ...first, ...between, ...second, ...after],
      typeOneFrom: numBetweenTypeZero === undefined
        ? undefined
        : before.length + first.length + numBetweenTypeZero,
    };
  }
}

/** The token that stands for what the vocabulary lacks, by the model in `tokenizer.json`. */
function findUnknownId(tokenizer: Tokenizer, json: Json): number | undefined {
  const model = isJson(json["model"]) ? json["model"] : {};
  const name = model["unk_token"];
  return typeof name === "string" ? tokenizer.token_to_id(name) : numberAt(model, "unk_id");
}

/** `undefined` if the tokenizer has no pairs of texts. */
function findPairFrame(tokenizer: Tokenizer): PairFrame | undefined {
  const [first, second] = PROBES;
  const { ids, token_type_ids: types } = tokenizer.encode(first, {
    text_pair: second,
    return_token_type_ids: true,
  });
  const [plainFirst, plainSecond] = PROBES.map((probe) =>
    tokenizer.encode(probe, { add_special_tokens: false }).ids
  ) as [number[], number[]];
  const firstAt = ids.findIndex((_, index) => startsWith(ids.slice(index), plainFirst));
  const firstEnd = firstAt + plainFirst.length;
  const secondAt = ids.findIndex((_, index) =>
    index >= firstEnd && startsWith(ids.slice(index), plainSecond)
  );
  if (firstAt < 0 || secondAt <= firstEnd) return undefined;
  const typeOneFrom = types?.indexOf(1) ?? -1;
  return {
    before: ids.slice(0, firstAt),
    between: ids.slice(firstEnd, secondAt),
    after: ids.slice(secondAt + plainSecond.length),
    ...(typeOneFrom >= firstEnd ? { numBetweenTypeZero: typeOneFrom - firstEnd } : {}),
  };
}
