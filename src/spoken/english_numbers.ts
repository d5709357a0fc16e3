/**
 * English: numbers.
 *
 * @module
 */
import { toCardinal, toOrdinal } from "n2words/en-US";
import type { Rule } from "./rule.ts";

/** Numbers with more digits are read digit by digit. */
const MAX_DIGITS = 18;

/** Written digit by digit, as of a telephone. */
function sayDigits(digits: string): string {
  return [...digits.replaceAll(/\D/g, "")].map((digit) => toCardinal(digit)).join(" ");
}

/** A whole or decimal number, without groups: `12.50` is "twelve point five zero". */
export function sayNumber(number: string): string {
  const [whole = "", fraction] = number.split(".");
  const isCode = whole.length > MAX_DIGITS || (whole.length > 1 && whole.startsWith("0"));
  const words = isCode ? sayDigits(whole) : toCardinal(whole || "0");
  return fraction === undefined ? words : `${words} point ${sayDigits(fraction)}`;
}

/** An ordinal number: `22` is "twenty-second". */
export function sayOrdinal(digits: string): string {
  const number = BigInt(digits);
  return number > 0n && digits.length <= MAX_DIGITS ? toOrdinal(number) : `${sayNumber(digits)}th`;
}

/** A year, or what is read like one: `1984` is "nineteen eighty-four". */
export function sayYear(digits: string): string {
  const [century, rest] = [digits.slice(0, 2), digits.slice(2)];
  if (rest === "00") {
    return Number(century) % 10 === 0 ? sayNumber(digits) : `${sayNumber(century)} hundred`;
  }
  if (!rest.startsWith("0")) return `${sayNumber(century)} ${toCardinal(rest)}`;
  return century.endsWith("0") ? sayNumber(digits) : `${sayNumber(century)} oh ${toCardinal(rest)}`;
}

const FRACTIONS: Readonly<Record<string, string>> = {
  "\u00bd": "1/2",
  "\u2153": "1/3",
  "\u2154": "2/3",
  "\u00bc": "1/4",
  "\u00be": "3/4",
  "\u2155": "1/5",
  "\u215b": "1/8",
};

/** Whether two numbers with a stroke between them are part of a whole, unlike 9/11, 24/7 and 50/50. */
function isFraction(above: string, below: string): boolean {
  const parts = Number(below);
  if (parts < 2 || (parts > 10 && ![12, 16, 20, 32, 64, 100].includes(parts))) return false;
  return Number(above) < parts || parts <= 4;
}

function sayFraction(above: string, below: string): string {
  if (below === "2") return above === "1" ? "one half" : `${sayNumber(above)} halves`;
  const part = below === "4" ? "quarter" : sayOrdinal(below);
  return `${sayNumber(above)} ${part}${above === "1" ? "" : "s"}`;
}

/** Compound numbers: applied before the rules for single numbers. */
export const COMPOUND_NUMBER_RULES: readonly Rule[] = [
  [
    /(\d)?([\u00bd\u2153\u2154\u00bc\u00be\u2155\u215b])/g,
    (_, whole, sign) => `${whole === undefined ? "" : `${whole} and `}${FRACTIONS[sign!]}`,
  ],
  [/(?<![\d.,])(\d{1,3}(?:,\d{3})+)(?![\d,])/g, (_, number) => number!.replaceAll(",", "")],
  // Telephone numbers, dotted numbers of versions and addresses.
  [/(?<!\d)(?:\+?\d{1,3}[ -])?\(?\d{3}\)?[ -]\d{3}-\d{4}(?!\d)/g, (number) => sayDigits(number)],
  [/(?<![\d.])\d{3}-\d{4}(?![\d-])/g, (number) => sayDigits(number)],
  [
    /(?<![\d.])\d+(?:\.\d+){2,}/g,
    (number) => ` ${number.split(".").map((part) => sayNumber(part)).join(" point ")} `,
  ],
  [
    /(?<![\d/.])([1-9]\d?)\/([1-9]\d{0,2})(?![\d/])/g,
    (whole, above, below) => isFraction(above!, below!) ? sayFraction(above!, below!) : whole,
  ],
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
  [/(?<=\d)\s?-\s?(?=\d+(?:\.\d+)?\s?=)/g, () => " minus "],
  [
    /(?<=\d(?:[%\u00b0kM]|bn)?)\s?[-\u2013]\s?(?=[$\u20ac\u00a3]?\d)/g,
    () => " to ",
  ],
];

/** Single numbers: applied after all rules with context. */
export const SINGLE_NUMBER_RULES: readonly Rule[] = [
  [/(\d+)(?:st|nd|rd|th)\b/gi, (_, number) => sayOrdinal(number!)],
  [
    /(?<![\d.$])(1[1-9]|20)(\d0)s\b/g,
    (_, century, decade) =>
      decade === "00"
        ? `${sayYear(century! + decade!)}s`
        : `${sayNumber(century!)} ${toCardinal(decade!).replace(/y$/, "ies")}`,
  ],
  [/(?<![\d.])'?(\d)0s\b/g, (_, tens) => toCardinal(`${tens}0`).replace(/y$/, "ies")],
  [/(?<![\d.,$-])(1[1-9]|20)\d\d(?![\d.,]\d|\d)/g, (year) => sayYear(year)],
  [/(?<![\w.)\]])[-](?=\.?\d)/g, () => "minus "],
  [/\d+(?:\.\d+)?|\.\d+/g, (number) => ` ${sayNumber(number)} `],
];
