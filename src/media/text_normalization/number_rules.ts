/**
 * Recognizes telephone numbers, fractions, versions and plain numbers.
 *
 * @module
 */
import { type DecimalSign, numberPattern, readAmount, readNumber } from "./number_format.ts";
import type { Rule, Token } from "./token.ts";

const START = String.raw`(?<![\p{L}\d]|\d[.,])`;
const MINUS = String.raw`(?:(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;^])[-\u2212])`;

const digits = ([text]: readonly (string | undefined)[]): Token => ({
  kind: "telephone",
  text: text!,
});

/** Figures that are read one by one. */
export const TELEPHONE_RULES: readonly Rule[] = [
  // With the code of a country.
  { pattern: /(?<![\p{L}\d])(\+\d[\d ().\u2011/-]{6,20}\d)(?![\d-])/uy, read: digits },
  // With a nought before it, in groups.
  {
    pattern: /(?<![\p{L}\d.,:/-])(\(?0\d{1,5}\)?(?:[ /-]\d{2,8}){1,5})(?![\d:-]|[.,/]\d)/uy,
    read: ([text]) => text!.replaceAll(/\D/g, "").length >= 6 ? digits([text]) : undefined,
  },
  // A card's number.
  { pattern: /(?<![\p{L}\d.,-])(\d{4}(?:([ -])\d{4})(?:\2\d{4}){2})(?![\d-])/uy, read: digits },
  // Numbers of books, accounts and the like: three groups or more.
  { pattern: /(?<![\p{L}\d.$-])(\d+(?:-\d+){2,})(?![\p{L}\d-])/uy, read: digits },
  // A nought before a number.
  { pattern: /(?<![\d.,:])(0\d+)(?![\d:]|[.,]\d)/uy, read: digits },
];

const VULGAR = "\u00bc-\u00be\u2150-\u215e";

/** Signs for fractions, and numbers with a stroke of which the language says whether they are one. */
export function fractionRules(
  isFraction: (fraction: {
    readonly whole: number | undefined;
    readonly numerator: number;
    readonly denominator: number;
    readonly after: string;
  }) => boolean,
): Rule[] {
  return [{
    pattern: new RegExp(String.raw`(?<![\d.,])(?:(\d+)\s?)?([${VULGAR}])`, "uy"),
    read: ([whole, sign]) => {
      const [numerator, denominator] = sign!.normalize("NFKD").split("\u2044").map(Number);
      return {
        kind: "fraction",
        whole: whole === undefined ? undefined : Number(whole),
        numerator: numerator!,
        denominator: denominator!,
      };
    },
  }, {
    pattern:
      /(?<![\d/.,\p{L}-])(?:(\d+)[ -])?([1-9]\d?)([/\u2044])([1-9]\d{0,3})(?![\d/]|[.,]\d)/uy,
    read: ([whole, numerator, stroke, denominator], { after }) => {
      const fraction = {
        whole: whole === undefined ? undefined : Number(whole),
        numerator: Number(numerator),
        denominator: Number(denominator),
      };
      const isSure = stroke === "\u2044" || isFraction({ ...fraction, after });
      return isSure ? { kind: "fraction", ...fraction } : undefined;
    },
  }];
}

/** A number that no other rule reads. */
export function cardinalRule(decimalSign: DecimalSign): Rule {
  return {
    pattern: new RegExp(String.raw`(${MINUS}(?=[.\d]))?(${numberPattern(decimalSign)})`, "uy"),
    read: ([minus, written]) => ({
      kind: "cardinal",
      amount: readAmount(readNumber(written!, decimalSign), { minus }),
    }),
  };
}

/** Three or more numbers with points between them: versions, sections. */
export function versionRule(say: (part: string) => string, point: string): Rule {
  return {
    pattern: new RegExp(String.raw`${START}(\d+(?:\.\d+){2,})(?!\d)`, "uy"),
    read: ([text], { after }) => {
      // Groups of a number where the decimal sign is a comma.
      const isGrouped = /^[1-9]\d{0,2}(?:\.\d{3}){2,}$/.test(text!) || /^,\d/.test(after);
      return isGrouped
        ? undefined
        : { kind: "verbatim", text: text!.split(".").map(say).join(` ${point} `) };
    },
  };
}
