/**
 * Tokens of long texts: a text that no context could hold is refused before it is fully tokenized.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { BusyThread } from "../../base/yield_to_events.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";

/** Shorter texts are encoded as they are. */
const MIN_LONG_CHARS = 32_768;
const SLICE_CHARS = 16_384;
/** Most characters of a token, unless the vocabulary has a longer one. */
const MIN_TOKEN_CHARS = 64;

/** Test texts that a tokenizer must split as {@linkcode isBoundary} does, for texts to be sliced there. */
const PROBES: readonly (readonly [first: string, second: string])[] = [
  ["The first line.\n", "The second"],
  ["let x = [1];\n\n", "été"],
  ["an apple", " pie"],
  ["名词", " noun"],
  ["Über", " größer, it's 3 o'clock"],
];

/** How many tokens are wanted. */
export interface LengthOptions {
  /** The model's context length; no limit if absent. */
  readonly maxTokens: number | undefined;
  /** Whether a longer text is truncated. */
  readonly mayCut: boolean;
  /** Name of the text in messages. */
  readonly what: string;
  readonly param?: string | undefined;
}

/** How to encode a text in turns with other work. */
export interface EncodeOptions {
  /** Whether the tokenizer's special tokens stand around it. */
  readonly hasSpecial: boolean;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

/** Whether to encode a text in turns with the thread's other work: it takes tens of milliseconds or more. */
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
   * The tokens of `text`, without special ones; if it may be truncated, at least the first `maxTokens`. A word of more
   * than 16,384 characters may be split where the tokenizer alone would not split it.
   *
   * @throws {HearthError} `context_length_exceeded` for more than twice `maxTokens`, if it must not be truncated; for
   * fewer the caller checks the number.
   */
  encode(text: string, options: LengthOptions): number[] {
    const ids: number[] = [];
    for (const some of this.#encodeSlices(text, options)) append(ids, some);
    return ids;
  }

  /** Like {@linkcode encode}, in turns with the thread's other work. @throws the signal's reason too. */
  async encodeInTurns(
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
    const { maxTokens = Infinity, mayCut } = options;
    if (!isLongText(text)) return yield this.#encode(text);
    const limit = mayCut ? maxTokens : 2 * maxTokens;
    const maxChars = limit * this.#tokenChars();
    if (text.length > maxChars && !mayCut) throw tooLong(options);
    const readable = text.length > maxChars ? text.slice(0, maxChars) : text;
    if (!this.#mayBeSliced()) return yield this.#encode(readable);
    let numTokens = 0;
    for (const slice of sliceText(readable)) {
      const ids = this.#encode(slice);
      yield ids;
      numTokens += ids.length;
      if (numTokens <= limit) continue;
      if (mayCut) return;
      throw tooLong(options);
    }
  }

  #encode(text: string): number[] {
    return this.#tokenizer.encode(text);
  }

  #tokenChars(): number {
    if (this.#maxTokenChars === undefined) {
      let longest = MIN_TOKEN_CHARS;
      for (const [spelling] of this.#tokenizer.entries()) {
        longest = Math.max(longest, spelling.length);
      }
      this.#maxTokenChars = longest;
    }
    return this.#maxTokenChars;
  }

  /** Whether the tokens of slices are those of the whole. */
  #mayBeSliced(): boolean {
    if (this.#isSliced === undefined) {
      const splitsAlike = PROBES.every(([first, second]) =>
        String(this.#encode(first + second)) ===
          String([...this.#encode(first), ...this.#encode(second)])
      );
      // Special tokens must not be split.
      const added = this.#tokenizer.addedTokens.values();
      this.#isSliced = splitsAlike && !added.some(({ content }) => /\s/.test(content.trim()));
    }
    return this.#isSliced;
  }
}

/** A loop, since a call takes only so many arguments. */
function append(ids: number[], some: readonly number[]): void {
  for (const id of some) ids.push(id);
}

function* sliceText(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = sliceEnd(text, start);
    yield text.slice(start, end);
    start = end;
  }
}

/** The last boundary within a slice; in a longer word, the slice's end. */
function sliceEnd(text: string, start: number): number {
  const reach = start + SLICE_CHARS;
  if (reach >= text.length) return text.length;
  for (let at = reach; at > start; at--) {
    if (isBoundary(text, at)) return at;
  }
  const isInPair = text.codePointAt(reach - 1)! > 0xffff;
  return isInPair ? reach - 1 : reach;
}

/**
 * Whether a text may be cut here, after a line or between two words: no tokenizer that splits words has a token across.
 */
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
