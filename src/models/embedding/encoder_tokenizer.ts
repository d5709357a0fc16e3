/**
 * Texts and pairs of texts as an encoder reads them: token ids between the special tokens of its tokenizer.
 *
 * @module
 */
import {
  type EncodeOptions,
  type LengthOptions,
  LongTextEncoder,
} from "../text/long_text_encoder.ts";
import { isJson, type Json, type ModelFolder, numberAt } from "../../hub/model_folder.ts";
import { NO_FRAMES, type PairFrame, type SpecialFrame } from "../../tokenizer/special_frame.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { TokenTexts } from "../text/token_text.ts";
import { readTokenizer, type TokenizerFiles } from "../text/tokenizer_files.ts";
import { HearthError } from "../../base/errors.ts";
import type { Truncation } from "../task.ts";

/** A text, or two, ready for the model. */
export interface EncodedText {
  readonly ids: readonly number[];
  /** Ids from here on are of token type 1; all are of type 0 if absent. */
  readonly typeOneFrom?: number | undefined;
  /** Tokens from here on count for pooling; all if absent. */
  readonly countsFrom?: number | undefined;
}

const ALL: LengthOptions = { maxTokens: undefined, mayCut: false, what: "The text" };

export class EncoderTokenizer {
  /** Number of token ids. */
  readonly vocabSize: number;
  readonly padTokenId: number;
  /** The bytes of single tokens. */
  readonly tokenTexts: TokenTexts;
  readonly #tokenizer: Tokenizer;
  readonly #long: LongTextEncoder;
  readonly #single: SpecialFrame;
  readonly #pair: PairFrame;
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
    this.vocabSize = tokenizer.numIds;
    const { single, pair } = isPlain ? NO_FRAMES : tokenizer.frames;
    this.#single = single;
    this.#pair = pair;
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
    const padTokenId = tokenizer.tokenToId(padName ?? "") ??
      numberAt(folder.config, "pad_token_id") ?? 0;
    return new EncoderTokenizer(files, { padTokenId, isPlain });
  }

  /** Whether there are special tokens between two texts. */
  get encodesPairs(): boolean {
    return this.#pair.between.length > 0;
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
    const { before, between, after } = this.#pair;
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

/** The token that stands for what the vocabulary lacks, by the model in `tokenizer.json`. */
function findUnknownId(tokenizer: Tokenizer, json: Json): number | undefined {
  const model = isJson(json["model"]) ? json["model"] : {};
  const name = model["unk_token"];
  return typeof name === "string" ? tokenizer.tokenToId(name) : numberAt(model, "unk_id");
}

/** Whether `ids` begins with `beginning`. */
function startsWith(ids: readonly number[], beginning: readonly number[]): boolean {
  return beginning.every((id, index) => ids[index] === id);
}

/**
 * Handles texts longer than the model's limit: refused with both lengths, or truncated if the
 * request says so.
 */
interface FitOptions {
  /** Special tokens added to it. */
  readonly numSpecial: number;
  /** Most tokens the model takes, special ones included; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly truncation: Truncation | undefined;
  /** Path of the text in the request. */
  readonly param: string;
}

/** Most tokens by the request or the model, special ones included. */
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
 * Cuts the tokens of a text at their end, where they are too many and the request allows it.
 *
 * @throws {HearthError} `context_length_exceeded` with both lengths; `invalid_value` for a text without tokens.
 */
export function fitText(ids: readonly number[], options: FitOptions): readonly number[] {
  const { numSpecial, truncation, param } = options;
  const room = computeRoom(options);
  if (ids.length + numSpecial === 0) {
    throw new HearthError(
      "invalid_value",
      `${param}: want text in which the model knows a token, saw none.`,
      { param },
    );
  }
  if (ids.length + numSpecial <= room) return ids;
  if (truncation === undefined) {
    throw tooLong(`${param} has`, ids.length + numSpecial, options);
  }
  return ids.slice(0, room - numSpecial);
}

/**
 * Cuts a query and a document: first the document to `maxSecond` tokens, then the longer of both until they fit.
 *
 * @throws {HearthError} as {@linkcode fitText}.
 */
export function fitPair(
  first: readonly number[],
  second: readonly number[],
  options: FitOptions & { readonly maxSecond: number | undefined },
): [readonly number[], readonly number[]] {
  const { numSpecial, truncation, maxSecond = Infinity } = options;
  const allowed = second.length > maxSecond ? second.slice(0, maxSecond) : second;
  const room = computeRoom(options) - numSpecial;
  if (first.length + allowed.length <= room) return [first, allowed];
  if (truncation === undefined) {
    const numTokens = first.length + allowed.length + numSpecial;
    throw tooLong(`query and ${options.param} together have`, numTokens, options);
  }
  const half = Math.ceil(room / 2);
  const firstRoom = Math.min(first.length, Math.max(half, room - allowed.length));
  return [first.slice(0, firstRoom), allowed.slice(0, room - firstRoom)];
}

function tooLong(subject: string, numTokens: number, options: FitOptions): HearthError {
  const { maxTokens, param } = options;
  return new HearthError(
    "context_length_exceeded",
    `${subject} ${numTokens} tokens, and the model takes at most ${maxTokens}. ` +
      "Send less text, or truncate it.",
    { param },
  );
}
