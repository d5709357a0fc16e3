/**
 * Strings as in Python, where they consist of code points.
 *
 * @module
 */
import { chargeText, requireShort } from "../meter.ts";

const PAIR = /[\ud800-\udbff][\udc00-\udfff]/;
const SPACES =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/** A character that counts as white space in Python. */
export const SPACE = new RegExp(`[${SPACES}]`);
export const SPACE_RUN = new RegExp(`[${SPACES}]+`, "g");
/** How many times longer it takes to look at each character than to copy it. */
const SLOW = 16;
const LEADING = new RegExp(`^[${SPACES}]+`);

/** Whether a text has code points of two UTF-16 units. */
export function isWide(text: string): boolean {
  return PAIR.test(text);
}

/** Python's `len(text)`. */
export function countChars(text: string): number {
  if (!isWide(text)) return text.length;
  chargeText(text.length * SLOW);
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Splits a text into code points. */
export function splitChars(text: string): string[] {
  chargeText(text.length * SLOW);
  return isWide(text) ? Array.from(text) : text.split("");
}

/** The UTF-16 offset of the code point with the index `chars`. */
function unitOffset(text: string, chars: number): number {
  if (!isWide(text)) return Math.min(chars, text.length);
  let offset = 0;
  for (let i = 0; i < chars && offset < text.length; i++) {
    offset += text.codePointAt(offset)! > 0xffff ? 2 : 1;
  }
  return offset;
}

/** Python's `text[start:end]`, with bounds within the text. */
export function sliceChars(text: string, start: number, end: number): string {
  if (end <= start) return "";
  if (!isWide(text)) return text.slice(start, end);
  const from = unitOffset(text, start);
  return text.slice(from, from + unitOffset(text.slice(from), end - start));
}

/**
 * Compares texts by code points, whose order differs from that of UTF-16 units.
 *
 * @returns a negative number, zero or a positive number.
 */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  let i = 0;
  while (i < length && a.charCodeAt(i) === b.charCodeAt(i)) i++;
  chargeText(i);
  if (i === length) return a.length - b.length;
  const [unitA, unitB] = [a.charCodeAt(i), b.charCodeAt(i)];
  const isSurrogateA = (unitA & 0xf800) === 0xd800;
  const isSurrogateB = (unitB & 0xf800) === 0xd800;
  if (isSurrogateA === isSurrogateB) return unitA - unitB;
  // A surrogate belongs to a code point that comes after all single units.
  return isSurrogateA
    ? (unitB > 0xdfff ? 1 : unitA - unitB)
    : (unitA > 0xdfff ? -1 : unitA - unitB);
}

/** Python's `text * times`. */
export function repeatText(text: string, times: number): string {
  if (times <= 0 || text === "") return "";
  requireShort(text.length * times);
  chargeText(text.length * times);
  return text.repeat(times);
}

/** Repeats a space or another character. */
export function fill(width: number, char = " "): string {
  return repeatText(char, width);
}

function charSet(chars: string): Set<string> {
  chargeText(chars.length * SLOW);
  return new Set(chars);
}

/** Python's `text.lstrip(chars)`. */
export function stripStart(text: string, chars?: string): string {
  if (chars === undefined) return text.replace(LEADING, "");
  const set = charSet(chars);
  let start = 0;
  for (const char of text) {
    if (!set.has(char)) break;
    start += char.length;
  }
  chargeText(start * SLOW);
  return text.slice(start);
}

/** Python's `text.rstrip(chars)`. */
export function stripEnd(text: string, chars?: string): string {
  const set = chars === undefined ? undefined : charSet(chars);
  let end = text.length;
  while (end > 0) {
    const char = lastChar(text, end);
    if (set === undefined ? !SPACE.test(char) : !set.has(char)) break;
    end -= char.length;
  }
  chargeText((text.length - end) * SLOW);
  return text.slice(0, end);
}

/** The code point that ends at an offset. */
function lastChar(text: string, end: number): string {
  const pair = text.slice(Math.max(0, end - 2), end);
  return PAIR.test(pair) ? pair : text.charAt(end - 1);
}

/** Python's `text.strip(chars)`. */
export function strip(text: string, chars?: string): string {
  return stripEnd(stripStart(text, chars), chars);
}

const LINE_END = new RegExp("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", "g");

/** Python's `text.splitlines(keepends)`. */
export function splitLines(text: string, keepsEnds = false): string[] {
  chargeText(text.length);
  const lines: string[] = [];
  let start = 0;
  for (const { 0: end, index } of text.matchAll(LINE_END)) {
    lines.push(text.slice(start, keepsEnds ? index + end.length : index));
    start = index + end.length;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

const HTML = new Map([["&", "&amp;"], ["<", "&lt;"], [">", "&gt;"], ['"', "&#34;"], [
  "'",
  "&#39;",
]]);

/** Escapes text for HTML as MarkupSafe does. */
export function escapeHtml(text: string): string {
  chargeText(text.length);
  return text.replaceAll(/[&<>"']/g, (char) => HTML.get(char)!);
}
