/**
 * Tokens of long texts: a text that no context could hold is refused before the tokenizer has read it all.
 *
 * @module
 */
import { HearthError } from "../errors.ts";

/** Shorter texts are encoded as they are. */
const MIN_LONG_CHARS = 32_768;
const SLICE_CHARS = 16_384;
/** A token stands for so many characters at most, unless the vocabulary has a longer one. */
const MIN_TOKEN_CHARS = 64;

/** Texts that a tokenizer has to split as {@linkcode isBoundary} does, to have its texts sliced there. */
const PROBES: readonly (readonly [first: string, second: string])[] = [
  ["The first line.\n", "The second"],
  ["let x = [1];\n\n", "été"],
  ["an apple", " pie"],
  ["名词", " noun"],
  ["Über", " größer, it's 3 o'clock"],
];

/** What is known of a tokenizer. */
export interface LongTextOptions {
  /** Tokens of a text, without special ones. */
  readonly encode: (text: string) => number[];
  /** How its tokens are spelled. */
  readonly spellings: () => Iterable<string>;
  /** Spellings of tokens that no text is split within. */
  readonly addedTokens: () => Iterable<string>;
}

/** How many tokens are wanted. */
export interface LengthOptions {
  /** Tokens that the model takes; no limit if absent. */
  readonly maxTokens: number | undefined;
  /** Whether only the first tokens are wanted of a text that has more. */
  readonly mayCut: boolean;
  /** How messages name the text. */
  readonly what: string;
  readonly param?: string | undefined;
}

export class LongTextEncoder {
  readonly #options: LongTextOptions;
  #maxTokenChars: number | undefined;
  #isSliced: boolean | undefined;

  constructor(options: LongTextOptions) {
    this.#options = options;
  }

  /**
   * The tokens of `text`, without special ones; where it may be cut, at least the first `maxTokens`. A word of more than
   * 16,384 characters may be split where the tokenizer alone would not split it.
   *
   * @throws {HearthError} `context_length_exceeded` for more than twice `maxTokens`, where it may not be cut; of fewer
   * the caller knows the number.
   */
  encode(text: string, options: LengthOptions): number[] {
    const { maxTokens = Infinity, mayCut } = options;
    if (text.length <= MIN_LONG_CHARS) return this.#options.encode(text);
    const limit = mayCut ? maxTokens : 2 * maxTokens;
    const maxChars = limit * this.#tokenChars();
    if (text.length > maxChars && !mayCut) throw tooLong(options);
    const readable = text.length > maxChars ? text.slice(0, maxChars) : text;
    if (!this.#mayBeSliced()) return this.#options.encode(readable);
    const ids: number[] = [];
    for (const slice of slicesOf(readable)) {
      for (const id of this.#options.encode(slice)) ids.push(id);
      if (ids.length <= limit) continue;
      if (mayCut) return ids;
      throw tooLong(options);
    }
    return ids;
  }

  #tokenChars(): number {
    if (this.#maxTokenChars === undefined) {
      let longest = MIN_TOKEN_CHARS;
      for (const spelling of this.#options.spellings()) {
        longest = Math.max(longest, spelling.length);
      }
      this.#maxTokenChars = longest;
    }
    return this.#maxTokenChars;
  }

  /** Whether the tokens of slices are those of the whole. */
  #mayBeSliced(): boolean {
    if (this.#isSliced === undefined) {
      const { encode, addedTokens } = this.#options;
      const splitsAlike = PROBES.every(([first, second]) =>
        String(encode(first + second)) === String([...encode(first), ...encode(second)])
      );
      this.#isSliced = splitsAlike && ![...addedTokens()].some((token) => /\s/.test(token.trim()));
    }
    return this.#isSliced;
  }
}

function* slicesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = sliceEnd(text, start);
    yield text.slice(start, end);
    start = end;
  }
}

/** The last boundary within reach; within a word longer than that, its reach. */
function sliceEnd(text: string, start: number): number {
  const reach = start + SLICE_CHARS;
  if (reach >= text.length) return text.length;
  for (let at = reach; at > start; at--) {
    if (isBoundary(text, at)) return at;
  }
  const isInPair = text.codePointAt(reach - 1)! > 0xffff;
  return isInPair ? reach - 1 : reach;
}

/** Behind a line, and between two words: no tokenizer that splits words at all has a token across. */
function isBoundary(text: string, at: number): boolean {
  const before = text[at - 1]!;
  const after = text[at]!;
  if (before === "\n") return !/\s/.test(after);
  return after === " " && /\p{L}/u.test(before) && /\p{L}/u.test(text[at + 1] ?? "");
}

function tooLong({ maxTokens, what, param }: LengthOptions): HearthError {
  return new HearthError(
    "context_length_exceeded",
    `${what} has more than ${2 * maxTokens!} tokens; this model's maximum context length is ` +
      `${maxTokens} tokens.`,
    { param },
  );
}
