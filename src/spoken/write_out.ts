/**
 * Writes out what is no word, for languages other than English: one table of rules, with the languages' data.
 *
 * @module
 */
import { moneyRules, nounRules, rangeRules, unitRules } from "./amount_rules.ts";
import { clockRules, dateRules, yearRules } from "./date_rules.ts";
import { type Gender, genderOf, type Language, type NumberWords, type Say } from "./language.ts";
import { LANGUAGES } from "./languages.ts";
import { writeNumbers } from "./numbers.ts";
import { applyRule, type TextRule } from "./text_rule.ts";
import { replaceAll } from "./rule.ts";
import { UnitNames } from "./unit_names.ts";

/** Numbers with more digits are read digit by digit. */
const MAX_DIGITS = 36;

type Writer = (text: string) => string;

/** By language: the names of its units take a while to collect. */
const writers = new Map<string, Promise<Writer>>();

/**
 * How a language writes texts out; `undefined` where its numbers are not known.
 *
 * @param language as in BCP 47, without a region.
 */
export async function loadWriter(language: string): Promise<Writer | undefined> {
  const data = LANGUAGES[language];
  if (data === undefined) return undefined;
  return await writers.getOrInsertComputed(
    language,
    async () => createWriter(data, await data.load()),
  );
}

/** Figures of a telephone number or the like: they have a nought before them, and are no group of thousands. */
const FIGURES: TextRule = {
  pattern: /(?<![\p{L}\d.,:/-])(?<!\d (?=\d{3}(?!\d)))(0\d+)(?![\d/:]|[.,]\d)/gu,
  say: ([figures], { say }) => [...figures!].map((figure) => say.cardinal(figure)).join(" "),
};

function createWriter(language: Language, words: NumberWords): Writer {
  const names = new UnitNames(language);
  const say = createSay(language, { words, names });
  const rules = [
    ...dateRules(language),
    ...rangeRules(language),
    ...clockRules(language),
    ...(language.ordinals ?? []).map(({ pattern, say: sayOrdinal }): TextRule => ({
      pattern,
      say: ([number, mark], context) => sayOrdinal(number!, mark!, context),
    })),
    ...moneyRules(language, names),
    ...unitRules(language, names),
    ...nounRules(language, names),
    ...yearRules(language),
    FIGURES,
  ];
  const toWords = (number: string) => say.cardinal(number);
  return (text) => {
    const full = replaceAll(text, language.shortWords ?? []);
    const written = rules.reduce((now, rule) => applyRule(now, rule, say), full);
    return writeNumbers(written, { toWords, decimalSign: language.decimalSign });
  };
}

function createSay(
  language: Language,
  { words, names }: { readonly words: NumberWords; readonly names: UnitNames },
): Say {
  const correct = (said: string) => replaceAll(said, language.corrections ?? []);
  const cardinal = (value: number | string, gender?: Gender): string => {
    const digits = String(value);
    if (digits.length > MAX_DIGITS) {
      return [...digits.replace(/\D/g, "")].map((digit) => cardinal(digit)).join(" ");
    }
    const [whole = "", decimals] = digits.split(".");
    if (decimals !== undefined && language.point !== undefined) {
      const [minus] = words.toCardinal("-1").split(" ");
      if (digits.startsWith("-")) return `${minus} ${cardinal(digits.slice(1))}`;
      return [cardinal(whole), language.point, ...[...decimals].map((digit) => cardinal(digit))]
        .join(" ");
    }
    const isCounted = gender !== undefined && decimals === undefined;
    const said = correct(words.toCardinal(digits, isCounted ? { gender } : undefined));
    return isCounted ? replaceAll(said, language.agreement?.[gender] ?? []) : said;
  };
  return {
    cardinal,
    ordinal: (value, gender) =>
      correct(words.toOrdinal(String(value), gender === undefined ? undefined : { gender })),
    unit: (value, unit) => {
      const digits = String(value);
      return names.unit({ digits, words: cardinal(digits, genderOf(language, unit)) }, unit)!;
    },
  };
}
