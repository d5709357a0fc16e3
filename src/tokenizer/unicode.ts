/**
 * Classes of characters as the Rust library asks for them.
 *
 * @module
 */
import { CharSet, type CharTest } from "./regex/char_set.ts";

function toCharSet(pattern: string): CharSet {
  const regExp = new RegExp(`^${pattern}$`, "u");
  const test: CharTest = (codePoint) => regExp.test(String.fromCodePoint(codePoint));
  return new CharSet(test);
}

/** `char::is_whitespace`. */
export const WHITESPACE = toCharSet("\\p{White_Space}");
/** `char::is_numeric`. */
export const NUMERIC = toCharSet("\\p{N}");
/** What splits words from punctuation: Unicode's, and ASCII's signs. */
export const PUNCTUATION = toCharSet("[\\p{P}!-\\/:-@\\[-`{-~]");
/** What BERT drops: control, format and private characters. */
export const CONTROL = toCharSet("[\\p{Cc}\\p{Cf}\\p{Co}]");
export const NONSPACING_MARK = toCharSet("\\p{Mn}");
export const MARK = toCharSet("\\p{M}");
/** `\w` of the `regex` crate. */
export const RUST_WORD = toCharSet("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]");

/** Keeps the characters that pass. */
export function filterChars(text: string, isKept: (codePoint: number) => boolean): string {
  let kept = "";
  for (const char of text) if (isKept(char.codePointAt(0)!)) kept += char;
  return kept;
}

/** Lower case, each character by itself: a sigma at the end of a word is like any other. */
export function lowercaseChars(text: string): string {
  const lower = text.toLowerCase();
  // Only Σ depends on what is around it.
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
