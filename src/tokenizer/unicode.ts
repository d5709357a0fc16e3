/**
 * Classes of characters as the Rust library defines them.
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
