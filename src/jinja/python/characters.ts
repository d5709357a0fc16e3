/**
 * Classifies characters for `isalpha()` and similar methods, and maps their case.
 *
 * @module
 */
import { strip } from "./text.ts";

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

/** Lower case of a text that follows other letters, which decides whether a sigma is final. */
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
