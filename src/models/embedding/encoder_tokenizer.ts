/**
 * Tokenizes texts and pairs of texts for encoders, with the tokenizer's special tokens around and between them.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import {
  type EncodeOptions,
  type LengthOptions,
  LongTextEncoder,
} from "../text/long_text_encoder.ts";
import {
  type Json,
  type ModelFolder,
  readNumber,
  readOptionalJson,
} from "../../hub/model_folder.ts";
import { NO_FRAMES, type PairFrame, type SpecialFrame } from "../../tokenizer/special_frame.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { readTokenizer, type TokenizerFiles, TokenTexts } from "../text/tokenizer_files.ts";
import { HearthError } from "../../base/errors.ts";
import type { Truncation } from "../task.ts";

/** The tokens of one text, or of a pair of texts, ready for the model. */
export interface EncodedText {
  readonly ids: readonly number[];
  /** Index of the first token of type 1; if absent, all tokens are of type 0. */
  readonly typeOneFrom?: number | undefined;
  /** Index of the first token that counts for pooling; if absent, all tokens count. */
  readonly countsFrom?: number | undefined;
}

const ALL: LengthOptions = { maxTokens: undefined, mayCut: false, what: "The text" };

export class EncoderTokenizer {
  /** Size of the vocabulary. */
  readonly vocabSize: number;
  readonly padTokenId: number;
  /** The bytes of each token. */
  readonly tokenTexts: TokenTexts;
  readonly #tokenizer: Tokenizer;
  readonly #long: LongTextEncoder;
  readonly #single: SpecialFrame;
  readonly #pair: PairFrame;
  /** The id of the unknown token, if it is removed from texts. */
  readonly #ignoredId: number | undefined;

  private constructor(
    { tokenizer, json }: TokenizerFiles,
    { padTokenId, isPlain }: { readonly padTokenId: number; readonly isPlain: boolean },
  ) {
    this.#tokenizer = tokenizer;
    this.tokenTexts = new TokenTexts(tokenizer, json["decoder"]);
    this.#long = new LongTextEncoder(tokenizer);
    this.padTokenId = padTokenId;
    this.vocabSize = tokenizer.numIds;
    const { single, pair } = isPlain ? NO_FRAMES : tokenizer.frames;
    this.#single = single;
    this.#pair = pair;
    this.#ignoredId = isPlain ? findUnknownId(tokenizer, json) : undefined;
  }

  /**
   * Reads `tokenizer.json`, `tokenizer_config.json` and, from `sentence_bert_config.json`, whether texts are converted
   * to lower case.
   *
   * @param options.isPlain whether to add no special tokens and to remove unknown tokens.
   * @throws {StartupError} when `tokenizer.json` is missing.
   */
  static async load(
    folder: ModelFolder,
    { isPlain = false }: { readonly isPlain?: boolean } = {},
  ): Promise<EncoderTokenizer> {
    const sentence = await readOptionalJson(folder, "sentence_bert_config.json");
    const files = await readTokenizer(folder, { lowersCase: sentence["do_lower_case"] === true });
    const { tokenizer, config } = files;
    const padToken = config["pad_token"];
    const padName = typeof padToken === "string"
      ? padToken
      : (padToken as { content?: string } | null | undefined)?.content;
    const padTokenId = tokenizer.tokenToId(padName ?? "") ??
      readNumber(folder.config, "pad_token_id") ?? 0;
    return new EncoderTokenizer(files, { padTokenId, isPlain });
  }

  /** Whether the tokenizer puts special tokens between two texts. */
  get encodesPairs(): boolean {
    return this.#pair.between.length > 0;
  }

  /** The number of special tokens that {@linkcode frame} adds. */
  get numSpecial(): number {
    return this.#single.before.length + this.#single.after.length;
  }

  /** The number of special tokens that {@linkcode frame} adds after the text. */
  get numSpecialAfter(): number {
    return this.#single.after.length;
  }

  /** The number of special tokens that {@linkcode framePair} adds. */
  get numSpecialInPair(): number {
    const { before, between, after } = this.#pair;
    return before.length + between.length + after.length;
  }

  /**
   * Tokenizes a text, without special tokens.
   *
   * @throws {HearthError} `context_length_exceeded` when the text must not be truncated, and has more than twice the
   * tokens that `length` allows.
   */
  encode(text: string, length: LengthOptions = ALL): number[] {
    const ids = this.#long.encode(text, length);
    return this.#ignoredId === undefined ? ids : ids.filter((id) => id !== this.#ignoredId);
  }

  /** Tokenizes a text of any length while yielding to the thread's other work. */
  async encodeInSlices(text: string, { hasSpecial, signal }: EncodeOptions): Promise<number[]> {
    const ids = await this.#long.encodeInSlices(text, ALL, signal);
    return hasSpecial ? [...this.frame(ids).ids] : ids;
  }

  /** Decodes tokens; special tokens are spelled out. */
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
    const { before, between, after, types } = this.#pair;
    const numBetweenTypeZero = types.between.filter((type) => type === 0).length;
    return {
      ids: [...before, ...first, ...between, ...second, ...after],
      typeOneFrom: types.second === 1
        ? before.length + first.length + numBetweenTypeZero
        : undefined,
    };
  }
}

/** Finds the id of the unknown token that the model in `tokenizer.json` gives. */
function findUnknownId(tokenizer: Tokenizer, json: Json): number | undefined {
  const model = isRecord(json["model"]) ? json["model"] : {};
  const name = model["unk_token"];
  return typeof name === "string" ? tokenizer.tokenToId(name) : readNumber(model, "unk_id");
}

/** Whether `ids` begins with `beginning`. */
function startsWith(ids: readonly number[], beginning: readonly number[]): boolean {
  return beginning.every((id, index) => ids[index] === id);
}

/** Limits for the length of a text, and whether to truncate a longer one. */
interface FitOptions {
  /** Number of special tokens added to the text. */
  readonly numSpecial: number;
  /** Maximum number of tokens that the model takes, special ones included; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly truncation: Truncation | undefined;
  /** Whether texts are cut at their beginning rather than at their end. */
  readonly keepsEnd?: boolean | undefined;
  /** JSON path of the text in the request. */
  readonly param: string;
}

/** Computes the maximum number of tokens that request and model allow, special ones included. */
function computeRoom({ maxTokens = Infinity, truncation, numSpecial, param }: FitOptions): number {
  if (truncation === undefined || truncation === "model") return maxTokens;
  if (truncation > numSpecial) return Math.min(truncation, maxTokens);
  throw new HearthError(
    "invalid_value",
    `want more than the ${numSpecial} special tokens around ${param}, saw ${truncation}.`,
    { param: "truncation" },
  );
}

/**
 * Cuts off tokens at the end, or at the beginning, if there are too many and the request allows truncation.
 *
 * @throws {HearthError} `context_length_exceeded` with the length and the limit; `invalid_value` for a text without
 * tokens.
 */
export function fitText(ids: readonly number[], options: FitOptions): readonly number[] {
  const { numSpecial, truncation, param } = options;
  const room = computeRoom(options);
  if (ids.length + numSpecial === 0) {
    throw new HearthError(
      "invalid_value",
      `${param}: want a text with at least one token that the model knows, saw none.`,
      { param },
    );
  }
  if (ids.length + numSpecial <= room) return ids;
  if (truncation === undefined) {
    throw makeLengthError(`${param} has`, ids.length + numSpecial, options);
  }
  return cut(ids, room - numSpecial, options);
}

function cut(
  ids: readonly number[],
  count: number,
  { keepsEnd }: Pick<FitOptions, "keepsEnd">,
): readonly number[] {
  return keepsEnd ? ids.slice(Math.max(0, ids.length - count)) : ids.slice(0, count);
}

/**
 * Fits a query and a document into the limit: cuts the document to `maxSecond` tokens, then the longer of the two until
 * both fit.
 *
 * @throws {HearthError} like {@linkcode fitText}.
 */
export function fitPair(
  first: readonly number[],
  second: readonly number[],
  options: FitOptions & { readonly maxSecond: number | undefined },
): [readonly number[], readonly number[]] {
  const { numSpecial, truncation, maxSecond = Infinity } = options;
  const allowed = second.length > maxSecond ? cut(second, maxSecond, options) : second;
  const room = computeRoom(options) - numSpecial;
  if (first.length + allowed.length <= room) return [first, allowed];
  if (truncation === undefined) {
    const numTokens = first.length + allowed.length + numSpecial;
    throw makeLengthError(`query and ${options.param} together have`, numTokens, options);
  }
  const half = Math.ceil(room / 2);
  const firstRoom = Math.min(first.length, Math.max(half, room - allowed.length));
  return [cut(first, firstRoom, options), cut(allowed, room - firstRoom, options)];
}

function makeLengthError(subject: string, numTokens: number, options: FitOptions): HearthError {
  const { maxTokens, param } = options;
  return new HearthError(
    "context_length_exceeded",
    `${subject} ${numTokens} tokens, and the model takes at most ${maxTokens}. ` +
      "Send less text, or truncate it.",
    { param },
  );
}
