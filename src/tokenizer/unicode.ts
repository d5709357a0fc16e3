/**
 * Classes of characters as the Rust library defines them, and the characters by which byte-level BPE spells bytes.
 *
 * @module
 */
import { CharSet, type CharTest } from "./regex/char_set.ts";

function toCharSet(pattern: string): CharSet {
  const regExp = new RegExp(`^${pattern}$`, "u");
  const test: CharTest = (codePoint) => regExp.test(String.fromCodePoint(codePoint));
  return new CharSet(test);
}

/** Rust's `char::is_whitespace`. */
export const WHITESPACE = toCharSet("\\p{White_Space}");
/** Rust's `char::is_numeric`. */
export const NUMERIC = toCharSet("\\p{N}");
/** Characters that separate words: Unicode's punctuation, and the symbols of ASCII. */
export const PUNCTUATION = toCharSet("[\\p{P}!-\\/:-@\\[-`{-~]");
/** Characters that BERT drops: control, format and private-use characters. */
export const CONTROL = toCharSet("[\\p{Cc}\\p{Cf}\\p{Co}]");
export const NONSPACING_MARK = toCharSet("\\p{Mn}");
export const MARK = toCharSet("\\p{M}");
/** `\w` in Rust's `regex` crate. */
export const RUST_WORD = toCharSet("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]");

/** Keeps the characters that pass a test. */
export function filterChars(text: string, isKept: (codePoint: number) => boolean): string {
  let kept = "";
  for (const char of text) if (isKept(char.codePointAt(0)!)) kept += char;
  return kept;
}

/** Converts each character to lower case by itself: a sigma at the end of a word is not special. */
export function lowercaseChars(text: string): string {
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

/** Characters by byte. */
const CHARS: string[] = [];
/** Bytes by code unit; -1 if the character spells none. */
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

/** The bytes that a token spells; if it has a character that spells none, the UTF-8 bytes of the token itself. */
export function readSpelledBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTES[token.charCodeAt(i)] ?? -1;
    if (byte < 0) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
