/**
 * Pre-tokenizers split a text into words, which the model then turns into tokens. Byte-level pre-tokenizers spell each
 * byte with a printable character.
 *
 * @module
 */
import { type ConfigReader, type Pattern, RegexPattern, StringPattern } from "./config_reader.ts";
import { type CharSet, NUMERIC, PUNCTUATION, RUST_WORD, WHITESPACE } from "./regex/char_set.ts";

/** The words into which a text has been split so far. */
interface Words {
  readonly words: readonly string[];
  /** Whether the first word begins at the beginning of the whole text. */
  readonly isFirst: boolean;
}

export type PreTokenizer = (text: Words) => Words;

/** @throws {StartupError} for an unknown pre-tokenizer. */
export function readPreTokenizer(reader: ConfigReader): PreTokenizer {
  switch (reader.type) {
    case "Sequence": {
      const all = reader.parts("pretokenizers").map(readPreTokenizer);
      return (text) => all.reduce((words, preTokenize) => preTokenize(words), text);
    }
    case "ByteLevel":
      return readByteLevel(reader);
    case "Metaspace":
      return readMetaspace(reader);
    case "Split": {
      const pattern = reader.pattern("pattern");
      const behavior = readBehavior(reader);
      return splitBy(pattern, behavior, reader.boolean("invert", false));
    }
    case "CharDelimiterSplit":
      return splitBy(new StringPattern(reader.string("delimiter")), "Removed");
    case "Whitespace":
      return mapWords(splitWords);
    case "WhitespaceSplit":
      return splitBy(charPattern(WHITESPACE), "Removed");
    case "Punctuation":
      return splitBy(charPattern(PUNCTUATION), readBehavior(reader, "Isolated"));
    case "Digits":
      return splitBy(
        charPattern(NUMERIC),
        reader.boolean("individual_digits", false) ? "Isolated" : "Contiguous",
      );
    case "BertPreTokenizer": {
      const atSpaces = splitBy(charPattern(WHITESPACE), "Removed");
      const atPunctuation = splitBy(charPattern(PUNCTUATION), "Isolated");
      return (text) => atPunctuation(atSpaces(text));
    }
    case "FixedLength": {
      const length = reader.number("length", 5);
      return mapWords((word) => splitChunks(word, length));
    }
    default:
      throw reader.unknownType();
  }
}

/** Makes a pre-tokenizer that splits each word by itself. */
function mapWords(split: (word: string) => readonly string[]): PreTokenizer {
  return ({ words, isFirst }) => {
    const parts: string[] = [];
    for (const word of words) {
      for (const part of split(word)) parts.push(part);
    }
    return {
      words: parts,
      isFirst: isFirst && parts.length > 0 && words[0]!.startsWith(parts[0]!),
    };
  };
}

function splitBy(pattern: Pattern, behavior: SplitBehavior, isInverted = false): PreTokenizer {
  return mapWords((word) => splitAt(word, pattern.findAll(word), { behavior, isInverted }));
}

/** A pattern that matches single characters of a set. */
function charPattern(set: CharSet): Pattern {
  return {
    findAll(text) {
      const found: number[] = [];
      for (let at = 0; at < text.length;) {
        const codePoint = text.codePointAt(at)!;
        const end = at + (codePoint > 0xffff ? 2 : 1);
        if (set.has(codePoint)) found.push(at, end);
        at = end;
      }
      return found;
    },
  };
}

/** GPT-2's pattern for words, which byte-level tokenizers use unless they configure another. */
const GPT2_WORDS =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

function readByteLevel(reader: ConfigReader): PreTokenizer {
  const addsSpace = reader.boolean("add_prefix_space", true);
  const split = reader.boolean("use_regex", true)
    ? splitBy(new RegexPattern(GPT2_WORDS), "Isolated")
    : undefined;
  return (text) => {
    const spaced = addsSpace
      ? text.words.map((word) => word.startsWith(" ") ? word : ` ${word}`)
      : text.words;
    const given = { words: spaced, isFirst: text.isFirst };
    const { words, isFirst } = split?.(given) ?? given;
    return { words: words.map(spellBytes), isFirst };
  };
}

function readMetaspace(reader: ConfigReader): PreTokenizer {
  const replacement = reader.string("replacement", "▁");
  const scheme = readPrependScheme(reader);
  const splits = reader.boolean("split", true);
  const pattern = new StringPattern(replacement);
  return ({ words, isFirst }) => {
    const replaced = words.map((word, index) => {
      const prepends = scheme === "always" || (scheme === "first" && isFirst && index === 0);
      const marked = word.replaceAll(" ", replacement);
      return prepends && !marked.startsWith(replacement) ? replacement + marked : marked;
    });
    if (!splits) return { words: replaced, isFirst };
    return splitBy(pattern, "MergedWithNext")({ words: replaced, isFirst });
  };
}

/** Reads when to put the space marker before a word: `always`, only for the `first`, or `never`. */
export function readPrependScheme(reader: ConfigReader): string {
  if (reader.has("prepend_scheme")) return reader.string("prepend_scheme");
  return reader.boolean("add_prefix_space", true) ? "always" : "never";
}

/** Splits a text into words and the symbols between them, without white space. */
function splitWords(text: string): string[] {
  const parts: string[] = [];
  let last = 0;
  let lastKind = 0;
  const end = (at: number) => {
    if (lastKind !== 0) parts.push(text.slice(last, at));
  };
  for (let at = 0; at < text.length;) {
    const codePoint = text.codePointAt(at)!;
    const kind = RUST_WORD.has(codePoint) ? 1 : WHITESPACE.has(codePoint) ? 0 : 2;
    if (kind !== lastKind) {
      end(at);
      last = at;
      lastKind = kind;
    }
    at += codePoint > 0xffff ? 2 : 1;
  }
  end(text.length);
  return parts;
}

function splitChunks(word: string, length: number): string[] {
  const chars = Array.from(word);
  const chunks: string[] = [];
  for (let at = 0; at < chars.length; at += length) {
    chunks.push(chars.slice(at, at + length).join(""));
  }
  return chunks;
}

/** What happens to the matches at which a text is split. */
type SplitBehavior =
  | "Removed"
  | "Isolated"
  | "MergedWithPrevious"
  | "MergedWithNext"
  | "Contiguous";

const BEHAVIORS: readonly SplitBehavior[] = [
  "Removed",
  "Isolated",
  "MergedWithPrevious",
  "MergedWithNext",
  "Contiguous",
];

/** @throws {StartupError} for an unknown behavior. */
function readBehavior(reader: ConfigReader, fallback?: SplitBehavior): SplitBehavior {
  const name = reader.string("behavior", fallback);
  const found = BEHAVIORS.find((known) => known.toLowerCase() === name.toLowerCase());
  if (found === undefined) throw reader.unknownType();
  return found;
}

/** A part of a text. */
interface Range {
  readonly start: number;
  end: number;
  readonly isMatch: boolean;
}

/**
 * Splits a text at matches.
 *
 * @param matches start and end of each match, alternating, from left to right.
 * @param options.isInverted whether to split at the text between the matches instead.
 * @returns the segments, none of them empty.
 */
function splitAt(
  text: string,
  matches: readonly number[],
  { behavior, isInverted = false }: {
    readonly behavior: SplitBehavior;
    readonly isInverted?: boolean;
  },
): string[] {
  const segments: string[] = [];
  const ranges = merge(toRanges(text, matches, isInverted), behavior);
  for (const { start, end, isMatch } of ranges) {
    if (end > start && !(isMatch && behavior === "Removed")) segments.push(text.slice(start, end));
  }
  return segments;
}

function toRanges(text: string, matches: readonly number[], isInverted: boolean): Range[] {
  const ranges: Range[] = [];
  let last = 0;
  for (let i = 0; i < matches.length; i += 2) {
    const start = matches[i]!;
    const end = matches[i + 1]!;
    if (start > last) ranges.push({ start: last, end: start, isMatch: isInverted });
    ranges.push({ start, end, isMatch: !isInverted });
    last = end;
  }
  if (last < text.length) ranges.push({ start: last, end: text.length, isMatch: isInverted });
  return ranges;
}

function merge(ranges: Range[], behavior: SplitBehavior): readonly Range[] {
  switch (behavior) {
    case "Removed":
    case "Isolated":
      return ranges;
    case "Contiguous":
      return join(ranges, (before, { isMatch }) => before.isMatch === isMatch);
    case "MergedWithPrevious":
      return join(ranges, (before, { isMatch }) => isMatch && !before.isMatch);
    case "MergedWithNext":
      return mergeWithNext(ranges);
  }
}

/** Joins neighbouring ranges for which `joins` returns true. */
function join(ranges: Range[], joins: (before: Range, range: Range) => boolean): Range[] {
  const joined: Range[] = [];
  ranges.forEach((range, index) => {
    const before = ranges[index - 1];
    if (before !== undefined && joins(before, range)) joined.at(-1)!.end = range.end;
    else joined.push({ ...range });
  });
  return joined;
}

function mergeWithNext(ranges: Range[]): Range[] {
  const merged: Range[] = [];
  for (let i = ranges.length - 1; i >= 0; i--) {
    const range = ranges[i]!;
    const next = ranges[i + 1];
    if (next !== undefined && range.isMatch && !next.isMatch) {
      merged.push({ ...merged.pop()!, start: range.start });
    } else merged.push({ ...range });
  }
  return merged.reverse();
}

/** The character that spells each byte. */
const CHARS: string[] = [];
/** The byte that each code unit spells; -1 if it spells none. */
const BYTES = new Int16Array(0x200).fill(-1);

for (let byte = 0, numShifted = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  const unit = isPrintable ? byte : 0x100 + numShifted++;
  CHARS[byte] = String.fromCharCode(unit);
  BYTES[unit] = byte;
}

const encoder = new TextEncoder();
const PRINTABLE_ASCII = /^[!-~]*$/;

/** Spells the UTF-8 bytes of a text. */
export function spellBytes(text: string): string {
  if (PRINTABLE_ASCII.test(text)) return text;
  let spelled = "";
  for (const byte of encoder.encode(text)) spelled += CHARS[byte]!;
  return spelled;
}

/** The bytes that a token spells; if one of its characters spells no byte, the UTF-8 bytes of the token itself. */
export function readSpelledBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTES[token.charCodeAt(i)] ?? -1;
    if (byte < 0) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
