/**
 * Normalizers change a text before it is split into words.
 *
 * @module
 */
import { BudgetError } from "./budget_error.ts";
import { spellBytes } from "./byte_chars.ts";
import type { ConfigReader } from "./config_reader.ts";
import { PrecompiledMap } from "./precompiled.ts";
import {
  CONTROL,
  filterChars,
  lowercaseChars,
  MARK,
  NONSPACING_MARK,
  trimEnd,
  trimStart,
  WHITESPACE,
} from "./unicode.ts";

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
