/**
 * English.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { type Noun, stripNumber } from "../nouns.ts";
import type { NumberWords } from "../numbers.ts";
import type { Context, Fields } from "../token.ts";
import data from "./english.json" with { type: "json" };
import { ENGLISH_RULES, isFraction, LAST_ENGLISH_RULES } from "./english_rules.ts";

/** `1984` is "nineteen eighty-four"; years outside of 1000 to 9999 are plain numbers. */
function sayYear(year: number, numbers: NumberWords): string {
  const century = Math.floor(year / 100);
  const rest = year % 100;
  const isPlain = year < 1_000 || year > 9_999 || century % 10 === 0 && rest < 10;
  if (isPlain) return numbers.cardinal(year);
  const end = rest === 0 ? "hundred" : `${rest < 10 ? "oh " : ""}${numbers.cardinal(rest)}`;
  return `${numbers.cardinal(century)} ${end}`;
}

/** `1990` is "nineteen nineties". */
function sayDecade(year: number, numbers: NumberWords): string {
  const decade = year % 100;
  if (decade === 0) return `${sayYear(year, numbers)}s`;
  const tens = decade === 10 ? "tens" : numbers.cardinal(decade).replace(/y$/, "ies");
  return year < 100 ? tens : `${numbers.cardinal(Math.floor(year / 100))} ${tens}`;
}

/** Says the digits in a name, such as a model's; four digits are read like a year. */
function sayFigures(figures: string, numbers: NumberWords): string {
  if (figures.includes(".")) return numbers.cardinal(figures);
  if (/^0\d|^\d{5}/.test(figures)) return numbers.digits(figures);
  return figures.length === 4 ? sayYear(Number(figures), numbers) : numbers.cardinal(figures);
}

function sayTime(
  { hour, minute = "00", second = "00", half, zone }: Fields,
  numbers: NumberWords,
): string {
  const part = (figures: string) =>
    figures === "00" ? "oh oh" : (figures < "10" ? "oh " : "") + numbers.cardinal(Number(figures));
  const isFull = minute === "00" && second === "00";
  const parts = isFull ? [] : second === "00" ? [part(minute)] : [part(minute), part(second)];
  const end = [...(half ? [half.toUpperCase(), "M"] : []), ...(zone ? ["UTC"] : [])];
  const hours = numbers.cardinal(Number(hour));
  if (!isFull || half) return [hours, ...parts, ...end].join(" ");
  const full = Number(hour) > 12 ? `${hours} hundred` : `${hours} o'clock`;
  return [Number(hour) === 0 ? "midnight" : full, ...end].join(" ");
}

/** An amount before a noun has the singular: "a five dollar bill". */
function attribute(said: string, noun: Noun, { before, after }: Context): string {
  const isAttribute = /\b(?:an?|another) $/i.test(before) && /^ (?!per\b)\p{Ll}{3}/u.test(after);
  const many = stripNumber(noun.inflect("2"));
  const one = stripNumber(noun.inflect("1"));
  return isAttribute && said.endsWith(many) ? said.slice(0, -many.length) + one : said;
}

const POWERS: Readonly<Record<string, string>> = { 2: "squared", 3: "cubed" };
const COMMON_WORDS = new Set(data.commonWords.split(" "));

/** Whether a text is written in capitals for emphasis, rather than being a list of abbreviations. */
function isShouted(text: string): boolean {
  if (/\p{Ll}/u.test(text)) return false;
  const words = text.replaceAll(/['\u2019]/g, "").match(/\p{Lu}+/gu) ?? [];
  const common = new Set(words.filter((word) => COMMON_WORDS.has(word.toLowerCase())));
  return words.length >= 3 && common.size >= 2;
}

export const ENGLISH: Language = {
  load: () => import("n2words/en-US"),
  data,
  isFraction,
  rules: ENGLISH_RULES,
  lastRules: LAST_ENGLISH_RULES,
  sayDay: (day, _, numbers) => numbers.ordinal(day),
  sayYear,
  finish: (said, text) =>
    isShouted(text) ? said.replaceAll(/\p{Lu}{2,}/gu, (word) => word.toLowerCase()) : said,
  verbalizer: ({ numbers, nouns }, common) => ({
    measure: (fields, context) =>
      attribute(common.measure(fields, context), nouns.unit(fields), context),
    money: (fields, context) =>
      attribute(
        common.money(fields, context),
        nouns.currencies.get(fields["currency"]!)![0]!,
        context,
      ),
    time: (fields) => sayTime(fields, numbers),
    date: ({ the, decade, ...fields }, context) => {
      if (decade) return sayDecade(Number(decade), numbers);
      const said = common.date(fields, context);
      return the ? said.replace(/^(\w+) ([^,]+)/, "the $2 of $1") : said;
    },
    roman: ({ the, ...fields }, context) => `${the ? "the " : ""}${common.roman(fields, context)}`,
  }),
  formatters: ({ numbers, nouns }) => ({
    year: (text) => sayYear(Number(text), numbers),
    figures: (text) => sayFigures(text, numbers),
    version: (text) => text.split(".").map((part) => sayFigures(part, numbers)).join(" point "),
    name: (text) => {
      const said = text.replaceAll(/-(?=\d)|(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, " ")
        .replaceAll(/\d+(?:\.\d+)?/g, (figures) => sayFigures(figures, numbers));
      // Several of them: B-52s.
      return /\d\ds$/.test(text) ? said.replace(/y s$/, "ies").replace(/(x?) s$/, "$1s") : said;
    },
    code: (text) =>
      text.toUpperCase().match(/[\p{L}\d]/gu)!
        .map((sign) => /\d/.test(sign) ? numbers.say(sign) : sign).join(" "),
    lowered: (text) => numbers.cardinal(Number(text.normalize("NFKC"))),
    power: (text) => {
      const [, minus, power = ""] = /^([-\u2212]?)(.*)$/.exec(text.normalize("NFKC"))!;
      const said = /\d/.test(power) ? numbers.say(power) : power;
      return POWERS[minus + power] ?? `to the power of ${minus && "minus "}${said}`;
    },
    rate: (text) => nouns.rate(text),
  }),
};
