/**
 * Recognizes money, measures and fractions.
 *
 * @module
 */
import type { Nouns } from "./nouns.ts";
import { type DecimalSign, matchAny, numberPattern } from "./numbers.ts";
import { type Condition, type Rule, rule } from "./token.ts";

/** No letter, figure or decimal sign before it. */
const START = String.raw`(?<![\p{L}\d]|\d[.,:/])`;
const MINUS = String.raw`(?:(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;])[-\u2212])`;
const RANGE = String.raw`(?:\s?[-\u2013]\s?|\s\u2013\s)`;
const POWER = String.raw`\^?[23](?!\d)|[\u00b2\u00b3]`;
/** A dash in the place of the hundredths: `250.\u2013`. */
const NO_CENTS = String.raw`(?:\.?[\u2013-](?![\w$\u20ac\u00a3\u00a5]))`;

/** Amounts with the sign or the code of a currency before or after them. */
export function moneyRules(nouns: Nouns, decimalSign: DecimalSign): Rule[] {
  const currency = `(?<currency>${matchAny(nouns.currencies.keys())})`;
  const number = numberPattern(decimalSign, { isMoney: true });
  const scales = matchAny(nouns.scales.keys());
  const scale = String.raw`(?:\s?(?<scale>${scales})(?![\p{L}\d]))?`;
  const last = String.raw`${RANGE}(?<last>${number})`;
  const per = String.raw`(?:\s?\/\s?(?<per>\p{L}+))?`;
  // A sign that stands alone begins an amount behind letters too: R$5.
  const sign = String
    .raw`(?<!\d)(?:(?<minus>${MINUS}|^[-\u2212])?(?<![A-Z])${currency}\s?|(?<![A-Z])${currency}\s?(?<minus>[-\u2212]))`;
  const end = String.raw`(?:${last}${scale.replace("scale", "lastScale")}(?![\d.,]*[-\d]))?`;
  const isOneScale: Condition = ({ last, scale, lastScale }) =>
    last === undefined || scale === undefined || scale === lastScale;
  return [
    rule("money", {}, isOneScale)`${sign}(?<number>${number})${scale}${NO_CENTS}?${end}${per}`,
    rule(
      "money",
    )`${START}(?<minus>${MINUS})?(?<number>${number})(?:${last})?${scale}\s?${currency}(?![\d\p{L}])${per}`,
  ];
}

/** Numbers and ranges with units. */
export function measureRules(
  nouns: Nouns,
  { decimalSign, words, codes }: {
    readonly decimalSign: DecimalSign;
    /** Symbols that are words too, so that they want no blank before them: `5 in`. */
    readonly words: readonly string[];
    /** Symbols that are the end of a name where no blank is before them: `Room 4B`. */
    readonly codes: readonly string[];
  },
): Rule[] {
  const unit = matchAny(nouns.units.keys());
  const number = numberPattern(decimalSign);
  const amount = String.raw`(?<minus>${MINUS})?(?<number>${number})(?:${RANGE}(?<last>${number}))?`;
  const per = matchAny([...nouns.units.keys(), ...Object.keys(nouns.periods)]);
  const rate = String.raw`(?:\s?\/\s?(?<per>${per})(?<perPower>${POWER})?)?`;
  // Not the first letter of "m'ont", nor a stroke that goes on to something else.
  const end = String.raw`(?![\p{L}\d\u00b2\u00b3]|['\u2019]\p{L}|\/\p{L})(?:\.(?=\s\p{Ll}))?`;
  const isMeasure: Condition = ({ number, last, hyphen, unit = "", per }, { before }) => {
    const isJoined = hyphen === "";
    if (words.includes(unit) && (!isJoined || last !== undefined)) return false;
    if (codes.includes(unit) && isJoined && per === undefined) return false;
    if (hyphen === "-" && (last !== undefined || /[-\u2013]$/.test(before))) return false;
    // Names such as 5s and 1990s.
    return unit !== "s" || !isJoined || per !== undefined || /[.,]/.test(number!);
  };
  return [
    rule(
      "measure",
      {},
      isMeasure,
    )`${START}${amount}(?<hyphen>[\s-]?)(?<unit>${unit})(?<power>${POWER})?${rate}${end}`,
    // As in Turkish and some others: %5.
    rule("measure", { unit: "%" })`(?<![\p{L}\d])%\s?(?<number>${number})`,
  ];
}

/** Signs for fractions, and numbers with a stroke of which the language says whether they are one. */
export function fractionRules(nouns: Nouns, isFraction: Condition): Rule[] {
  const units = [...nouns.units.keys()].filter((unit) => /^(?!(?:in|d)$)[a-z ]{1,4}$/i.test(unit));
  const unit = String.raw`(?:[ -]?(?<unit>${matchAny(units)})(?![\p{L}\d'/])(?:\.(?=\s\p{Ll}))?)?`;
  const above = String.raw`(?<![\d/.,\p{L}-])(?:(?<whole>\d+)[ -])?(?<numerator>[1-9]\d?)`;
  const below = String.raw`(?<denominator>[1-9]\d{0,3})(?![\d/]|[.,]\d)`;
  return [
    rule(
      "fraction",
    )`(?<![\d.,])(?:(?<whole>\d+)\s?)?(?<vulgar>[\u00bc-\u00be\u2150-\u215e])${unit}`,
    rule("fraction")`${above}\u2044${below}${unit}`,
    rule("fraction", {}, isFraction)`${above}\/${below}${unit}`,
  ];
}
