/**
 * Normalizers change a text before it is split into words.
 *
 * @module
 */
import { BudgetError } from "./regex/matcher.ts";
import { CONTROL, MARK, NONSPACING_MARK, WHITESPACE } from "./regex/char_set.ts";
import { spellBytes } from "./pre_tokenizers.ts";
import type { ConfigReader } from "./config_reader.ts";
import { StartupError } from "../base/errors.ts";

export type Normalizer = (text: string) => string;

/** @throws {StartupError} for an unknown normalizer. */
export function readNormalizer(reader: ConfigReader): Normalizer {
  switch (reader.type) {
    case "Sequence": {
      const all = reader.parts("normalizers").map(readNormalizer);
      return (text) => all.reduce((normalized, normalize) => normalize(normalized), text);
    }
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD": {
      const form = reader.type;
      return (text) => text.normalize(form);
    }
    case "Lowercase":
      return lowercaseChars;
    case "StripAccents":
      return (text) => filterChars(text, (codePoint) => !MARK.has(codePoint));
    case "Strip": {
      const strips = { left: reader.boolean("strip_left"), right: reader.boolean("strip_right") };
      return (text) => {
        const left = strips.left ? trimStart(text) : text;
        return strips.right ? trimEnd(left) : left;
      };
    }
    case "Prepend": {
      const prefix = reader.string("prepend");
      return (text) => text === "" ? "" : prefix + text;
    }
    case "Replace": {
      const pattern = reader.pattern("pattern");
      const content = reader.string("content");
      return (text) => replaceAll(text, pattern.findAll(text), content);
    }
    case "ByteLevel":
      return spellBytes;
    case "Nmt":
      return normalizeNmt;
    case "BertNormalizer":
      return readBertNormalizer(reader);
    case "Precompiled": {
      const map = new PrecompiledMap(reader);
      return (text) => map.normalize(text);
    }
    default:
      throw reader.unknownType();
  }
}

/** Longest text that replacements may produce: it has more tokens than any model's context. */
const MAX_LENGTH = 2 * 1024 * 1024;

/**
 * @param matches start and end of each match, alternating.
 * @throws {BudgetError} when the text grows too long.
 */
export function replaceAll(text: string, matches: readonly number[], content: string): string {
  if (matches.length === 0) return text;
  const most = text.length + content.length * matches.length / 2;
  if (content.length > 1 && most > Math.max(text.length, MAX_LENGTH)) {
    throw new BudgetError("replacements make the text too long");
  }
  let replaced = "";
  let last = 0;
  for (let i = 0; i < matches.length; i += 2) {
    replaced += text.slice(last, matches[i]) + content;
    last = matches[i + 1]!;
  }
  return replaced + text.slice(last);
}

function readBertNormalizer(reader: ConfigReader): Normalizer {
  const cleans = reader.boolean("clean_text", true);
  const splitsHan = reader.boolean("handle_chinese_chars", true);
  const lowers = reader.boolean("lowercase", true);
  const strips = reader.optionalBoolean("strip_accents") ?? lowers;
  return (text) => {
    if (cleans) text = cleanText(text);
    if (splitsHan) text = text.replaceAll(HAN, " $& ");
    if (strips) {
      text = filterChars(text.normalize("NFD"), (codePoint) => !NONSPACING_MARK.has(codePoint));
    }
    return lowers ? lowercaseChars(text) : text;
  };
}

/** The blocks of Chinese characters in BERT's original code. */
const HAN =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b820}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

function cleanText(text: string): string {
  let clean = "";
  for (const char of text) {
    const codePoint = char.codePointAt(0)!;
    if (codePoint === 0xfffd || (CONTROL.has(codePoint) && !/[\t\n\r]/.test(char))) continue;
    clean += WHITESPACE.has(codePoint) ? " " : char;
  }
  return clean;
}

const NMT_DROPPED = /(?![\0\t\n\f\r\x80-\x8e\x90-\x9e])\p{Cc}/gu;
const NMT_SPACES = /[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/g;

function normalizeNmt(text: string): string {
  return text.replaceAll(NMT_DROPPED, "").replaceAll(NMT_SPACES, " ");
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Longest grapheme, in bytes, that is looked up as a whole. */
const MAX_GRAPHEME_BYTES = 5;

/**
 * SentencePiece's normalization table: a double-array trie (Darts-clone) of the texts to replace, and their
 * replacements, each ended by a zero byte.
 */
class PrecompiledMap {
  readonly #units: Uint32Array;
  readonly #replacements: Uint8Array;
  readonly #segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

  /** @throws {StartupError} when the table is damaged. */
  constructor(reader: ConfigReader) {
    const path = `tokenizer.json: ${reader.path}.precompiled_charsmap`;
    let bytes: Uint8Array;
    try {
      bytes = Uint8Array.from(
        atob(reader.string("precompiled_charsmap")),
        (char) => char.charCodeAt(0),
      );
    } catch (cause) {
      throw new StartupError(`${path}: it is not base64.`, { cause });
    }
    const view = new DataView(bytes.buffer);
    const numBytes = bytes.length < 4 ? -1 : view.getUint32(0, true);
    if (numBytes < 4 || numBytes % 4 !== 0 || 4 + numBytes > bytes.length) {
      throw new StartupError(`${path}: its table is damaged or cut off.`);
    }
    this.#units = Uint32Array.from(
      { length: numBytes / 4 },
      (_, index) => view.getUint32(4 + 4 * index, true),
    );
    this.#replacements = bytes.subarray(4 + numBytes);
  }

  normalize(text: string): string {
    let normalized = "";
    for (const { segment } of this.#segmenter.segment(text)) {
      normalized += this.#normalizeGrapheme(segment);
    }
    return normalized;
  }

  #normalizeGrapheme(grapheme: string): string {
    const bytes = encoder.encode(grapheme);
    const whole = bytes.length <= MAX_GRAPHEME_BYTES ? this.#find(bytes) : undefined;
    if (whole !== undefined) return whole;
    let normalized = "";
    for (const char of grapheme) normalized += this.#find(encoder.encode(char)) ?? char;
    return normalized;
  }

  /** The replacement for the shortest entry that is a prefix of the bytes. */
  #find(bytes: Uint8Array): string | undefined {
    const units = this.#units;
    let at = readOffset(units[0]!);
    for (const byte of bytes) {
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = units[at];
      // Compares the label together with the bit that only leaves have.
      if (unit === undefined || (unit & 0x800000ff) !== byte) return undefined;
      at ^= readOffset(unit);
      const hasLeaf = (unit >>> 8) & 1;
      if (hasLeaf) return this.#replacementAt(units[at]! & 0x7fffffff);
    }
    return undefined;
  }

  #replacementAt(start: number): string {
    const end = this.#replacements.indexOf(0, start);
    return decoder.decode(this.#replacements.subarray(start, end < 0 ? undefined : end));
  }
}

function readOffset(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

/** Keeps the characters that pass a test. */
function filterChars(text: string, isKept: (codePoint: number) => boolean): string {
  let kept = "";
  for (const char of text) if (isKept(char.codePointAt(0)!)) kept += char;
  return kept;
}

/** Converts each character to lower case by itself: a sigma at the end of a word is not special. */
function lowercaseChars(text: string): string {
  const lower = text.toLowerCase();
  // Only Σ depends on its context.
  return lower.includes("ς") && text.includes("Σ")
    ? Array.from(text, (char) => char.toLowerCase()).join("")
    : lower;
}

export function trimStart(text: string): string {
  let at = 0;
  while (at < text.length && WHITESPACE.has(text.charCodeAt(at))) at++;
  return text.slice(at);
}

export function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && WHITESPACE.has(text.charCodeAt(end - 1))) end--;
  return text.slice(0, end);
}
