/**
 * Normalizes the texts of one language: common rules, and the data and rules of the language.
 *
 * @module
 */
import { abbreviationRules, type Abbreviations } from "./abbreviation_rules.ts";
import { type AmountSyntax, measureRules, moneyRules } from "./amount_rules.ts";
import { type DateSyntax, dayMonthRule, numericDateRules } from "./date_rules.ts";
import { ELECTRONIC_RULES, sayAddress } from "./electronic.ts";
import type { Lexicon } from "./lexicon.ts";
import { cardinalRule, fractionRules, TELEPHONE_RULES, versionRule } from "./number_rules.ts";
import { type NumberModule, type NumberStyle, NumberWords } from "./number_words.ts";
import { type Grammar, verbalizeText } from "./scanner.ts";
import { parseTable } from "./tables.ts";
import { clockRules, type TimeSyntax } from "./time_rules.ts";
import {
  type CalendarDate,
  type Context,
  type Fraction,
  type Rule,
  type Time,
  type Verbalizer,
  verbatim,
} from "./token.ts";

/** What the functions of a language say numbers with. */
export interface Tools {
  readonly numbers: NumberWords;
  readonly lexicon: Lexicon;
}

/** What is known of a language. */
export interface Language {
  readonly load: () => Promise<NumberModule>;
  readonly numbers: NumberStyle;
  readonly createLexicon: (numbers: NumberWords) => Lexicon;
  readonly amounts: AmountSyntax;
  readonly dates: DateSyntax;
  readonly times: TimeSyntax;
  readonly abbreviations: Abbreviations;
  /** A table of words for signs in a text. */
  readonly signs: string;
  /** A table of words for signs in addresses; without one, signs there are not spoken. */
  readonly address?: string;
  /** The words between the ends of a range, and of a score. */
  readonly to?: string | undefined;
  readonly versus?: string | undefined;
  readonly ordinals: readonly OrdinalRule[];
  readonly sayDate: (date: CalendarDate, context: Context, tools: Tools) => string;
  readonly sayYear?: (year: number, tools: Tools) => string;
  readonly sayTime: (time: Time, context: Context, tools: Tools) => string;
  readonly sayFraction?: (fraction: Fraction, context: Context, tools: Tools) => string;
  readonly sayTelephone?: (text: string, tools: Tools) => string;
  /** Rules that are tried before the common ones, and after all of them but that for plain numbers. */
  readonly createRules?: (tools: Tools) => {
    readonly first: readonly Rule[];
    readonly last?: readonly Rule[];
    readonly isFraction?: (fraction: Stroke) => boolean;
  };
}

/** Two numbers with a stroke between them, and what follows. */
export interface Stroke {
  readonly whole: number | undefined;
  readonly numerator: number;
  readonly denominator: number;
  readonly after: string;
}

/** Figures with a mark, the two groups of the pattern, that are an ordinal number. */
interface OrdinalRule {
  readonly pattern: RegExp;
  readonly say: (digits: string, mark: string, context: Context, tools: Tools) => string;
}

/** Signs that are not spoken unless a language has a word for them; they part words as a blank does. */
const UNSPOKEN =
  "*_~^|\\<>{}[]`+=#@/&$%\u00b4\u00a8\u00b7\u2022\u25e6\u25aa\u25ba\u2713\u2714\u2717\u2718\u2605\u2606\u266a\u266b";

/** Writes the texts of a language out in words. */
export async function createNormalizer(language: Language): Promise<(text: string) => string> {
  const numbers = new NumberWords(await language.load(), language.numbers);
  const lexicon = language.createLexicon(numbers);
  const grammar = createGrammar(language, { numbers, lexicon });
  return (text) => verbalizeText(text, grammar);
}

function createGrammar(language: Language, tools: Tools): Grammar {
  const { numbers, lexicon } = tools;
  const { amounts, dates, ordinals, sayYear, sayFraction, versus } = language;
  const own = language.createRules?.(tools) ?? { first: [] };
  const signs = new Map([...UNSPOKEN].map((sign) => [sign, ""]));
  const point = language.address === undefined ? "" : parseTable(language.address).get(".")!;
  const rules = [
    ...ELECTRONIC_RULES,
    ...own.first,
    ...numericDateRules(dates),
    ...dayMonthRule(dates),
    ...clockRules(language.times),
    ...ordinals.map(({ pattern, say }): Rule => ({
      pattern,
      read: ([digits, mark = ""], context) => verbatim(say(digits!, mark, context, tools)),
    })),
    ...moneyRules(lexicon, amounts),
    ...measureRules(lexicon, amounts),
    ...TELEPHONE_RULES,
    ...(sayFraction === undefined ? [] : fractionRules(own.isFraction ?? isSmallFraction)),
    ...abbreviationRules(language.abbreviations),
    ...(own.last ?? []),
    ...(sayYear === undefined ? [] : [YEAR_RULE]),
    ...(versus === undefined ? [] : [scoreRule(numbers, versus)]),
    versionRule((part) => numbers.cardinal(part), point),
    cardinalRule(amounts.decimalSign),
  ];
  return {
    rules,
    verbalizer: createVerbalizer(language, tools),
    to: language.to,
    versus,
    minus: language.numbers.minus,
    signs: new Map([...signs, ...parseTable(language.signs)]),
  };
}

const isSmallFraction = ({ numerator, denominator }: Stroke) =>
  numerator < denominator && denominator <= 10;

const YEAR_RULE: Rule = {
  pattern: /(?<![\p{L}\d.,:/$+-])((?:1[1-9]|20)\d\d)(?![\d:/]|[.,]\d)/uy,
  read: ([year]) => ({ kind: "year", year: Number(year) }),
};

const scoreRule = (numbers: NumberWords, versus: string): Rule => ({
  pattern: /(?<![\d:.,])(\d{1,3}):(\d{1,3})(?![\d:]|[.,]\d)/uy,
  read: ([home, away]) =>
    verbatim(`${numbers.cardinal(home!)} ${versus} ${numbers.cardinal(away!)}`),
});

function createVerbalizer(language: Language, tools: Tools): Verbalizer {
  const { numbers, lexicon } = tools;
  const words = parseTable(language.address ?? "");
  const sayPlus = parseTable(language.signs).get("+") ?? "+";
  return {
    cardinal: ({ amount: { digits, isNegative, scale } }) => {
      const said = numbers.cardinal(digits) + (scale === undefined ? "" : ` ${scale}`);
      return isNegative ? numbers.negative(said) : said;
    },
    ordinal: ({ digits }) => numbers.ordinal(digits),
    telephone: ({ text }) =>
      (text.startsWith("+") ? `${sayPlus} ` : "") +
      (language.sayTelephone?.(text, tools) ?? numbers.digits(text)),
    year: ({ year }) => language.sayYear?.(year, tools) ?? numbers.cardinal(String(year)),
    date: (date, context) => language.sayDate(date, context, tools),
    time: (time, context) => language.sayTime(time, context, tools),
    money: (money) => lexicon.money(money),
    measure: (measure) => lexicon.measure(measure),
    fraction: (fraction, context) => language.sayFraction!(fraction, context, tools),
    electronic: ({ text }) => sayAddress(text, { words, numbers }),
    verbatim: ({ text }) => text,
  };
}
