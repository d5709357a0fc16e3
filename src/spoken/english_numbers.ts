/**
 * English: numbers.
 *
 * @module
 */
import { toCardinal, toOrdinal } from "n2words/en-US";
import type { Rule } from "./rule.ts";

/** Numbers with more digits are read digit by digit. */
const MAX_DIGITS = 18;

/** Digits, perhaps in groups of three, perhaps with decimals. Groups stay: without them 1,999 looks like a year. */
export const NUMBER = String.raw`(?:\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?`;

/** Written digit by digit, as of a telephone. */
function sayDigits(digits: string): string {
  return [...digits.replaceAll(/\D/g, "")].map((digit) => toCardinal(digit)).join(" ");
}

/** A whole or decimal number, perhaps in groups: `12.50` is "twelve point five zero". */
export function sayNumber(number: string): string {
  const [whole = "", fraction] = number.replaceAll(",", "").split(".");
  const isCode = whole.length > MAX_DIGITS || (whole.length > 1 && whole.startsWith("0"));
  const words = isCode ? sayDigits(whole) : toCardinal(whole || "0");
  return fraction === undefined ? words : `${words} point ${sayDigits(fraction)}`;
}

/** An ordinal number: `22` is "twenty-second". */
export function sayOrdinal(number: string): string {
  const digits = number.replaceAll(",", "");
  const isOrdinal = BigInt(digits) > 0n && digits.length <= MAX_DIGITS;
  return isOrdinal ? toOrdinal(BigInt(digits)) : `${sayNumber(digits)}th`;
}

/** A year, or what is read like one: `1984` is "nineteen eighty-four". */
export function sayYear(digits: string): string {
  const [century, rest] = [digits.slice(0, 2), digits.slice(2)];
  if (rest === "00") {
    return Number(century) % 10 === 0 ? sayNumber(digits) : `${sayNumber(century)} hundred`;
  }
  if (!rest.startsWith("0")) return `${sayNumber(century)} ${toCardinal(rest)}`;
  return century === "20" ? sayNumber(digits) : `${sayNumber(century)} oh ${toCardinal(rest)}`;
}

/** Parts of a whole that have a name; more than the first ten are rare. */
const PARTS: ReadonlySet<number> = new Set([
  2,
  3,
  4,
  5,
  6,
  7,
  8,
  9,
  10,
  12,
  16,
  20,
  32,
  64,
  100,
  1000,
]);
/** What grades and votes are out of. */
const FULL_MARKS: ReadonlySet<string> = new Set(["5", "10", "100"]);

/** Two numbers with a stroke between them: a part of a whole, unlike 9/11, 24/7 and 50/50; or a grade such as 7/10. */
function sayFraction(
  match: string,
  [whole, above, below, ofWhole]: readonly (string | undefined)[],
): string {
  const [count, parts] = [Number(above), Number(below)];
  const isGrade = FULL_MARKS.has(below!) && count > 1 && count <= parts &&
    (whole ?? ofWhole) === undefined;
  if (isGrade && (parts > 5 || count === parts)) {
    return `${sayNumber(above!)} out of ${sayNumber(below!)}`;
  }
  if (!PARTS.has(parts) || (count >= parts && parts > 4)) return match;
  const some = whole === undefined ? "" : `${sayNumber(whole)} and `;
  if (parts === 2) return count === 1 ? `${some}one half` : `${some}${sayNumber(above!)} halves`;
  const part = parts === 4 ? "quarter" : sayOrdinal(below!);
  return `${some}${sayNumber(above!)} ${part}${count === 1 ? "" : "s"}`;
}

const RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

/** Compound numbers: applied before the rules for single numbers. */
export const COMPOUND_NUMBER_RULES: readonly Rule[] = [
  // Signs for fractions, and lowered and raised digits.
  [
    /(\d)?([\u00bc-\u00be\u2150-\u215e])/g,
    (_, digit, sign) =>
      `${digit === undefined ? "" : `${digit} `}${sign!.normalize("NFKD").replace("\u2044", "/")}`,
  ],
  [/[\u2080-\u2089]/g, (digit) => digit.normalize("NFKD")],
  [
    new RegExp(String.raw`(?<=[\d)]|(?<!\p{L})\p{L}{1,3})(\u207b?)([${RAISED}]+)`, "gu"),
    (_, sign, digits) =>
      `^${sign && "-"}${[...digits!].map((digit) => RAISED.indexOf(digit)).join("")}`,
  ],
  // Groups with other signs between them.
  [/(?<![\d.,])\d{1,3}(?: \d{3})* 000(?![\d.,]*\d)/g, (number) => number.replaceAll(" ", ",")],
  [/(?<=\d)_(?=\d{3})/g, () => ""],
  [
    /(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d\d)(?![\d,])/g,
    (_, whole, fraction) => `${whole!.replaceAll(".", ",")}.${fraction}`,
  ],
  // Telephone numbers.
  [/(?<![\w+])\+(\d[\d ().-]{6,20}\d)(?![\d-])/g, (_, number) => `plus ${sayDigits(number!)}`],
  [
    /(?<![\d.,])(?:1[ .-])?\(?\d{3}\)?[ .-]?(?<=[ .)-])\d{3}[ .-]\d{4}(?![\d-])/g,
    (number) => sayDigits(number),
  ],
  [/(?<![\d.-])\d{3}-\d{4}(?![\d-])/g, (number) => sayDigits(number)],
  [/(?<![\d.,])0\d{1,4}(?: \d{2,4}){2,4}(?!\d)/g, (number) => sayDigits(number)],
  [
    /\b1-8(\d)\1-(?=[A-Z])/g,
    (start) => start.startsWith("1-800") ? "one eight hundred " : `${sayDigits(start)} `,
  ],
  [/(?<=\b(?:call|dial)(?:ed|ing)? )\d{3}\b(?![.,-]?\d)/gi, (number) => sayDigits(number)],
  // Versions.
  [/(?<=\p{L})(?=\d+(?:\.\d+){2})|(?<=\d(?:\.\d+){2,})(?=\p{L})/gu, () => " "],
  [
    /(?<![\d.])\d+(?:\.\d+){2,}/g,
    (number) => number.split(".").map((part) => sayNumber(part)).join(" point "),
  ],
  [
    /(?<![\d/.,])(?:(\d+)[ -])?([1-9]\d?)\/([1-9]\d{0,3})(?![\d/]|[.,]\d)(?=( (?:of|an?|mile|inch|second)\b)?)/g,
    (match, ...numbers) => sayFraction(match, numbers),
  ],
  [/(?<=\d) \/ (?=\d)/g, () => " divided by "],
  [/(?<=\d)\/(?=\d)/g, () => " "],
  // Numbers of books, accounts and the like.
  [
    /(?<![\w.$-])\d+(?:-\d+){2,}(?![\w-])/g,
    (number) => number.split("-").map((part) => sayDigits(part)).join(", "),
  ],
  [
    /(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)(\d+)\b/gi,
    (_, number, sign, power) =>
      `${number} times ten to the ${sign === "-" ? "minus " : ""}${power}`,
  ],
  [/(?<=\d)\s?(?:-\s?(?=\d+(?:\.\d+)?\s?=)|\u2212\s?(?=\d))/g, () => " minus "],
  // Ranges. The sign of an amount goes to its end: `$5-10k` is "five to ten thousand dollars".
  [
    new RegExp(String.raw`([$\u20ac\u00a3])(${NUMBER})\s?[-\u2013]\s?(?=\d)`, "g"),
    (_, sign, number) => `${number} to ${sign}`,
  ],
  [
    // A hyphen that stands at the second number alone is its sign.
    /(?<=\d(?:[%kM]|bn|[ckm]?m|k?g|\u00b0[CF]?)?)(?: - |-\s?|\s?\u2013\s?)(?=[$\u20ac\u00a3]?\d)/g,
    () => " to ",
  ],
];

/** Single numbers: applied after all rules with context. */
export const SINGLE_NUMBER_RULES: readonly Rule[] = [
  [
    new RegExp(String.raw`(?<![\d.,])(${NUMBER})(?:st|nd|rd|th)\b`, "gi"),
    (match, number) => number!.includes(".") ? match : sayOrdinal(number!),
  ],
  [
    /(?<![\d.$])(1[1-9]|20)(\d0)'?s\b/g,
    (_, century, decade) =>
      decade === "00"
        ? `${sayYear(century! + decade!)}s`
        : `${sayNumber(century!)} ${toCardinal(decade!).replace(/y$/, "ies")}`,
  ],
  [/\b100s\b/g, () => "hundreds"],
  [/\b1,?000s\b/g, () => "thousands"],
  [/(?<![\d.])'?(\d)0'?s\b/g, (_, tens) => toCardinal(`${tens}0`).replace(/y$/, "ies")],
  [/(?<=\p{L})-(?=\d)/gu, () => " "],
  [/(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, () => " "],
  [/(?<![\d.,$-])(1[1-9]|20)\d\d(?![.,]?\d)/g, (year) => sayYear(year)],
  [/(?<=\b(?:in|since|until|year|AD) )10\d\d\b(?![.,]\d)/g, (year) => sayYear(year)],
  [/(?<![\w.)\]])[-\u2212](?=\.?\d)/g, () => "minus "],
  [/(?<![\w.)\]])\+(?=\.?\d)/g, () => "plus "],
  // As in `beta.2`.
  [/(?<=\p{L})\.(?=\d)/gu, () => ". "],
  [new RegExp(String.raw`${NUMBER}|(?<!\.)\.\d+`, "g"), (number) => sayNumber(number)],
];
