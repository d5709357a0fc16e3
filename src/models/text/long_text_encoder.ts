/**
 * Tokenizes long texts in slices, so that the thread can do other work in between. A text too long for any context is
 * refused before it is fully tokenized.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { BusyThread } from "../../base/timing.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";

/** Texts of at most this length are encoded at once. */
const MIN_LONG_CHARS = 32_768;
const SLICE_CHARS = 16_384;
/** Assumed length of the longest token in characters, unless the vocabulary has a longer one. */
const MIN_TOKEN_CHARS = 64;

/**
 * Pairs of texts. Texts can be sliced only if the tokenizer splits between the two texts of each pair, as
 * {@linkcode isBoundary} assumes.
 */
const PROBES: readonly (readonly [first: string, second: string])[] = [
  ["The first line.\n", "The second"],
  ["let x = [1];\n\n", "été"],
  ["an apple", " pie"],
  ["名词", " noun"],
  ["Über", " größer, it's 3 o'clock"],
];

/** Limits for the length of a text. */
export interface LengthOptions {
  /** The model's context length; no limit if absent. */
  readonly maxTokens: number | undefined;
  /** Whether a longer text may be truncated. */
  readonly mayCut: boolean;
  /** Whether a truncated text loses its beginning rather than its end. */
  readonly keepsEnd?: boolean | undefined;
  /** Name of the text in error messages. */
  readonly what: string;
  readonly param?: string | undefined;
}

/** Options for encoding a text while yielding to other work. */
export interface EncodeOptions {
  /** Whether to add the tokenizer's special tokens. */
  readonly hasSpecial: boolean;
  /** Aborts the encoding. */
  readonly signal: AbortSignal;
}

/** Whether encoding a text takes tens of milliseconds or more, so that it should yield to the thread's other work. */
export function isLongText(text: string): boolean {
  return text.length > MIN_LONG_CHARS;
}

export class LongTextEncoder {
  readonly #tokenizer: Tokenizer;
  #maxTokenChars: number | undefined;
  #isSliced: boolean | undefined;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /**
   * Encodes a text without special tokens. If it may be truncated, at least the first `maxTokens` tokens are returned;
   * with `keepsEnd`, at least the last. A word of more than 16,384 characters may be split at a point where the
   * tokenizer itself would not split it.
   *
   * @throws {HearthError} `context_length_exceeded` if the text must not be truncated and has more than twice
   * `maxTokens` tokens. The caller checks for smaller excesses.
   */
  encode(text: string, options: LengthOptions): number[] {
    const ids: number[] = [];
    for (const some of this.#encodeSlices(text, options)) append(ids, some);
    return ids;
  }

  /**
   * Encodes like {@linkcode encode}, but yields to the thread's other work.
   *
   * @throws the signal's reason when it is aborted.
   */
  async encodeInSlices(
    text: string,
    options: LengthOptions,
    signal: AbortSignal,
  ): Promise<number[]> {
    const thread = new BusyThread();
    const ids: number[] = [];
    for (const some of this.#encodeSlices(text, options)) {
      append(ids, some);
      if (!isLongText(text)) break;
      await thread.yield();
      signal.throwIfAborted();
    }
    return ids;
  }

  *#encodeSlices(text: string, options: LengthOptions): Generator<readonly number[]> {
    const { maxTokens = Infinity, mayCut, keepsEnd } = options;
    if (!isLongText(text)) return yield this.#encode(text);
    const limit = mayCut ? maxTokens : 2 * maxTokens;
    const maxChars = limit * this.#measureLongestToken();
    if (text.length > maxChars && !mayCut) throw makeLengthError(options);
    if (mayCut && keepsEnd) return yield this.#encodeEnd(text.slice(-maxChars), limit);
    const readable = text.length > maxChars ? text.slice(0, maxChars) : text;
    if (!this.#mayBeSliced()) return yield this.#encode(readable);
    let numTokens = 0;
    for (const slice of sliceText(readable)) {
      const ids = this.#encode(slice);
      yield ids;
      numTokens += ids.length;
      if (numTokens <= limit) continue;
      if (mayCut) return;
      throw makeLengthError(options);
    }
  }

  /** Encodes a text from its last slice on, until there are more than `limit` tokens. */
  #encodeEnd(text: string, limit: number): number[] {
    if (!this.#mayBeSliced()) return this.#encode(text);
    const ends: number[][] = [];
    let numTokens = 0;
    for (const slice of [...sliceText(text)].reverse()) {
      if (numTokens > limit) break;
      const ids = this.#encode(slice);
      ends.push(ids);
      numTokens += ids.length;
    }
    return ends.reverse().flat();
  }

  #encode(text: string): number[] {
    return this.#tokenizer.encode(text);
  }

  #measureLongestToken(): number {
    if (this.#maxTokenChars === undefined) {
      let longest = MIN_TOKEN_CHARS;
      for (const [spelling] of this.#tokenizer.entries()) {
        longest = Math.max(longest, spelling.length);
      }
      this.#maxTokenChars = longest;
    }
    return this.#maxTokenChars;
  }

  /** Whether the tokens of slices together are the tokens of the whole text. */
  #mayBeSliced(): boolean {
    if (this.#isSliced === undefined) {
      const splitsAlike = PROBES.every(([first, second]) =>
        String(this.#encode(first + second)) ===
          String([...this.#encode(first), ...this.#encode(second)])
      );
      // Added tokens must not be split.
      const added = this.#tokenizer.addedTokens.values();
      this.#isSliced = splitsAlike && !added.some(({ content }) => /\s/.test(content.trim()));
    }
    return this.#isSliced;
  }
}

/** Appends in a loop, as `push(...some)` fails for very many arguments. */
function append(ids: number[], some: readonly number[]): void {
  for (const id of some) ids.push(id);
}

function* sliceText(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = findSliceEnd(text, start);
    yield text.slice(start, end);
    start = end;
  }
}

/** Finds the end of the slice that begins at `start`: its last boundary, or its full length if it has none. */
function findSliceEnd(text: string, start: number): number {
  const reach = start + SLICE_CHARS;
  if (reach >= text.length) return text.length;
  for (let at = reach; at > start; at--) {
    if (isBoundary(text, at)) return at;
  }
  const isInPair = text.codePointAt(reach - 1)! > 0xffff;
  return isInPair ? reach - 1 : reach;
}

/**
 * Whether a text may be cut before `at`: after a line break, or between two words. Tokenizers that split texts into
 * words have no token across such a point.
 */
function isBoundary(text: string, at: number): boolean {
  const before = text[at - 1]!;
  const after = text[at]!;
  if (before === "\n") return !/\s/.test(after);
  return after === " " && /\p{L}/u.test(before) && /\p{L}/u.test(text[at + 1] ?? "");
}

function makeLengthError({ maxTokens, what, param }: LengthOptions): HearthError {
  return new HearthError(
    "context_length_exceeded",
    `${what} has more than ${2 * maxTokens!} tokens; this model's maximum context length is ` +
      `${maxTokens} tokens.`,
    { param },
  );
}
