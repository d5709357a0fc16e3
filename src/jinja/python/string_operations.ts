/**
 * The operations behind the methods of str: searching, splitting and replacing, classes of characters and case.
 *
 * @module
 */
import { charge, chargeText, requireShort } from "../meter.ts";
import { countChars, isWide, sliceChars, SPACE_RUN, strip, stripEnd, stripStart } from "./text.ts";

/** Python's `text.find(part, start, end)`, with bounds within the text; -1 if it is not found. */
export function findText(
  text: string,
  part: string,
  { start, end, fromEnd }: {
    readonly start: number;
    readonly end: number;
    readonly fromEnd: boolean;
  },
): number {
  if (start > end) return -1;
  chargeText(text.length);
  const searched = sliceChars(text, start, end);
  const at = fromEnd ? searched.lastIndexOf(part) : searched.indexOf(part);
  if (at < 0) return -1;
  return start + (isWide(searched) ? countChars(searched.slice(0, at)) : at);
}

/** Python's `text.replace(old, by, count)`; a negative count replaces all. */
export function replaceText(
  text: string,
  old: string,
  { by, count }: { readonly by: string; readonly count: number },
): string {
  chargeText(text.length);
  if (old === "") return insertBetween(text, by, count);
  const parts = count < 0 ? text.split(old) : splitText(text, old, count);
  charge(parts.length);
  requireShort(text.length + (parts.length - 1) * (by.length - old.length));
  const replaced = parts.join(by);
  chargeText(replaced.length);
  return replaced;
}

function insertBetween(text: string, by: string, count: number): string {
  const chars = Array.from(text);
  const most = count < 0 ? chars.length + 1 : Math.min(count, chars.length + 1);
  requireShort(text.length + most * by.length);
  chargeText(text.length * 8 + most * by.length);
  const between = chars.map((char, index) => (index < most ? by : "") + char).join("");
  return most > chars.length ? between + by : between;
}

/** Python's `text.split(separator, most)`; without a separator it splits at white space. */
export function splitText(text: string, separator: string | undefined, most: number): string[] {
  chargeText(text.length);
  if (separator === undefined) return splitAtSpace(text, most);
  const parts = limitedSplit(text, separator, most);
  charge(parts.length);
  return parts;
}

function limitedSplit(text: string, separator: string, most: number): string[] {
  if (most < 0) return text.split(separator);
  const parts: string[] = [];
  let start = 0;
  while (parts.length < most) {
    const at = text.indexOf(separator, start);
    if (at < 0) break;
    parts.push(text.slice(start, at));
    start = at + separator.length;
  }
  parts.push(text.slice(start));
  return parts;
}

function splitAtSpace(text: string, most: number): string[] {
  const parts: string[] = [];
  let start = text.length - stripStart(text).length;
  for (const { 0: space, index } of text.matchAll(SPACE_RUN)) {
    if (index < start) continue;
    if (most >= 0 && parts.length >= most) break;
    parts.push(text.slice(start, index));
    start = index + space.length;
  }
  charge(parts.length);
  if (start < text.length) parts.push(text.slice(start));
  return parts;
}

/** Python's `text.rsplit(separator, most)`. */
export function splitTextFromEnd(
  text: string,
  separator: string | undefined,
  most: number,
): string[] {
  if (most < 0) return splitText(text, separator, most);
  chargeText(text.length);
  if (separator === undefined) return splitAtSpaceFromEnd(text, most);
  const parts: string[] = [];
  let end = text.length;
  while (parts.length < most) {
    const at = end < separator.length ? -1 : text.lastIndexOf(separator, end - separator.length);
    if (at < 0) break;
    parts.push(text.slice(at + separator.length, end));
    end = at;
  }
  parts.push(text.slice(0, end));
  charge(parts.length);
  return parts.reverse();
}

function splitAtSpaceFromEnd(text: string, most: number): string[] {
  const parts: string[] = [];
  let rest = stripEnd(text);
  const spaces = [...rest.matchAll(SPACE_RUN)].filter(({ index }) => index > 0);
  for (const { 0: space, index } of spaces.reverse()) {
    if (parts.length === most) break;
    parts.push(rest.slice(index + space.length));
    rest = rest.slice(0, index);
  }
  charge(parts.length);
  // White space at the start is only kept if the limit of splits was reached.
  const first = stripStart(rest);
  if (first !== "") parts.push(parts.length === most ? rest : first);
  return parts.reverse();
}

/** Digits that are not decimal digits, such as superscripts and circled digits. */
const OTHER_DIGITS =
  /[\xb2\xb3\xb9\u1369-\u1371\u19da\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490\u24ea\u24f5-\u24fd\u24ff\u2776-\u277e\u2780-\u2788\u278a-\u2792\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}]/u;
const CJK_NUMBERS =
  /[\u3405\u3483\u382a\u3b4d\u4e00\u4e03\u4e07\u4e09\u4e5d\u4e8c\u4e94\u5341\u5343\u53c1-\u53c4\u56db\u58f1\u58f9\u5e7a\u5efe\u5eff\u5f0c-\u5f0e\u62fe\u634c\u67d2\u6f06\u7396\u767e\u8086\u842c\u8cae\u8cb3\u8d30\u920e\u9621\u9646\u964c\u9678\u96f6]/;

const isEvery = (test: (char: string) => boolean) => (text: string) =>
  text !== "" && Array.from(text).every(test);

const isDecimal = (char: string) => /\p{Nd}/u.test(char);
const isDigit = (char: string) => isDecimal(char) || OTHER_DIGITS.test(char);
const isNumeric = (char: string) => /\p{N}/u.test(char) || CJK_NUMBERS.test(char);
const isAlpha = (char: string) => /\p{L}/u.test(char);
const isUpper = (char: string) => /\p{Uppercase}/u.test(char);
const isLower = (char: string) => /\p{Lowercase}/u.test(char);
const isTitle = (char: string) => /\p{Lt}/u.test(char);

/** `str.isalpha` and similar methods, by name. */
export const CLASSES: Readonly<Record<string, (text: string) => boolean>> = {
  isalnum: isEvery((char) => isAlpha(char) || isNumeric(char) || isDigit(char)),
  isalpha: isEvery(isAlpha),
  isascii: (text) => !/[^\0-\x7f]/.test(text),
  isdecimal: isEvery(isDecimal),
  isdigit: isEvery(isDigit),
  isidentifier: (text) => /^[\p{XID_Start}_]\p{XID_Continue}*$/u.test(text),
  islower: (text) => hasCase(text, isLower),
  isnumeric: isEvery(isNumeric),
  isprintable: (text) =>
    Array.from(text).every((char) => char === " " || !/[\p{C}\p{Z}]/u.test(char)),
  isspace: (text) => text !== "" && strip(text) === "",
  istitle: isTitleCased,
  isupper: (text) => hasCase(text, isUpper),
};

function hasCase(text: string, isWanted: (char: string) => boolean): boolean {
  const cased = Array.from(text).filter((char) => isUpper(char) || isLower(char) || isTitle(char));
  return cased.length > 0 && cased.every(isWanted);
}

function isTitleCased(text: string): boolean {
  let isAfterCased = false;
  let hasAny = false;
  for (const char of text) {
    const isStart = isUpper(char) || isTitle(char);
    if ((isStart && isAfterCased) || (isLower(char) && !isAfterCased)) return false;
    isAfterCased = isStart || isLower(char);
    hasAny ||= isAfterCased;
  }
  return hasAny;
}

const TITLES = new Map([
  ...["Ǆǅǆ", "Ǉǈǉ", "Ǌǋǌ", "Ǳǲǳ"].flatMap((group) =>
    Array.from(group, (char) => [char, group[1]!] as const)
  ),
]);

/** A character's title case: if it expands to several letters, only the first one is upper case. */
function titleCase(char: string): string {
  const title = TITLES.get(char);
  if (title !== undefined) return title;
  const [first = "", ...rest] = char.toUpperCase();
  return first + rest.join("").toLowerCase();
}

/** Python's `text.capitalize()`. */
export function capitalize(text: string): string {
  const [first = ""] = text;
  return titleCase(first) + lowerAfter(first, text.slice(first.length));
}

/** Lower case of `text`, which follows `before`: the letters before a sigma decide whether it becomes a final one. */
function lowerAfter(before: string, text: string): string {
  return (before + text).toLowerCase().slice(before.toLowerCase().length);
}

/** Python's `text.title()`. */
export function titleWords(text: string): string {
  return text.replaceAll(
    /[\p{Cased}](?:[\p{Cased}]|(?=\p{M})\p{Case_Ignorable}(?=\p{Cased}))*/gu,
    (word) => capitalize(word),
  );
}

/** Python's `text.swapcase()`. */
export function swapCase(text: string): string {
  return Array.from(
    text,
    (char) => isUpper(char) ? char.toLowerCase() : isLower(char) ? char.toUpperCase() : char,
  ).join("");
}

/** Python's `text.casefold()`. */
export function foldCase(text: string): string {
  return Array.from(text, (char) => {
    if (char === "ς") return "σ";
    const upper = char.toUpperCase();
    return upper.length > char.length ? upper.toLowerCase() : char.toLowerCase();
  }).join("");
}
