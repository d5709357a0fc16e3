/**
 * Normalizes the texts of one language: common rules and verbalizers, and the data and rules of the language.
 *
 * @module
 */
import {
  abbreviationRules,
  type Abbreviations,
  createAbbreviationReader,
} from "./abbreviations.ts";
import { fractionRules, measureRules, type MeasureSyntax, moneyRules } from "./amount_rules.ts";
import { type AmountStyle, AmountWords } from "./amount_words.ts";
import {
  clockRules,
  createDateFormat,
  type DateSyntax,
  dayMonthRule,
  numericDateRules,
  readYear,
  type TimeSyntax,
} from "./date_rules.ts";
import { ELECTRONIC_RULES, sayAddress } from "./electronic.ts";
import { type Nouns, type NounTables, TableNouns } from "./nouns.ts";
import {
  cardinalRule,
  scoreRule,
  TELEPHONE_RULES,
  VERSION_RULE,
  YEAR_RULE,
} from "./number_rules.ts";
import { type NumberModule, type NumberStyle, NumberWords, parseRoman } from "./numbers.ts";
import { type Grammar, verbalizeText } from "./scanner.ts";
import type { Condition, Context, Fields, Rule, Verbalizer } from "./token.ts";

/** The words of a language. */
export interface LanguageData extends NounTables {
  readonly fractions: FractionWords;
  readonly abbreviations: Abbreviations;
  /** Words for signs in a text. */
  readonly signs: Readonly<Record<string, string>>;
  /** Words for signs in addresses. */
  readonly address: Readonly<Record<string, string>>;
}

interface FractionWords {
  /** Between the whole and the fraction. */
  readonly and: string;
  /** Half of one thing, in both genders. */
  readonly half: readonly string[];
  /** Parts of a whole whose name is not the ordinal: one, many. */
  readonly names: Readonly<Record<string, readonly string[]>>;
}

/** What numbers are said with. */
export interface Tools {
  readonly numbers: NumberWords;
  readonly nouns: Nouns;
  readonly amounts: AmountWords;
}

/** Functions for `{field:way}` in the words of a rule. */
export type Ways = Readonly<Record<string, (text: string) => string>>;

/** What is known of a language. */
export interface Language {
  readonly locale: string;
  /** The functions of n2words. */
  readonly load: () => Promise<NumberModule>;
  readonly data: LanguageData;
  readonly numbers: NumberStyle;
  readonly amounts: AmountStyle;
  readonly measures?: Omit<MeasureSyntax, "decimalSign">;
  readonly dates: DateSyntax;
  readonly times: TimeSyntax;
  /** In place of those of the tables. */
  readonly nouns?: Nouns;
  /** The word in a score. */
  readonly versus?: string | undefined;
  /** Own rules, which are tried before the common ones. */
  readonly rules?: (tools: Tools) => readonly Rule[];
  /** Ordinal numbers, in Arabic and Roman figures. */
  readonly ordinals?: readonly Rule[];
  /** Own rules, which are tried after all but those for years, versions and plain numbers. */
  readonly lastRules?: (tools: Tools) => readonly Rule[];
  /** Words before a noun that make it feminine for a fraction: `1/2 taza`. */
  readonly feminine?: RegExp;
  readonly isFraction?: Condition;
  readonly sayDay?: (day: string, context: Context, tools: Tools) => string;
  /** Numbers of four figures that look like years are read as such where a language has this. */
  readonly sayYear?: (year: number, tools: Tools) => string;
  readonly sayFraction?: (fields: Fields, context: Context, tools: Tools) => string;
  /** Verbalizers in place of the common ones. */
  readonly verbalizer?: (tools: Tools, common: Verbalizer) => Partial<Verbalizer>;
  readonly ways?: (tools: Tools) => Ways;
  /** Changes the words of a whole text. */
  readonly finish?: (said: string, text: string) => string;
}

/** Signs that are not spoken unless a language has a word for them; they part words as a blank does. */
const UNSPOKEN =
  "*_~^|\\<>{}[]`+=#@/&$%\u00b4\u00a8\u00b7\u2022\u25e6\u25aa\u25ba\u2713\u2714\u2717\u2718\u2605\u2606\u266a\u266b";

/** Writes the texts of a language out in words. */
export async function createNormalizer(language: Language): Promise<(text: string) => string> {
  const numbers = new NumberWords(await language.load(), language.numbers);
  const nouns = language.nouns ?? new TableNouns(language.locale, language.data);
  const amounts = new AmountWords(language.amounts, { numbers, nouns });
  const grammar = createGrammar(language, { numbers, nouns, amounts });
  const { finish } = language;
  return (text) => {
    const said = verbalizeText(text, grammar);
    return finish === undefined ? said : finish(said, text);
  };
}

function createGrammar(language: Language, tools: Tools): Grammar {
  const { data, numbers: { decimalSign, minus }, versus } = language;
  const { nouns } = tools;
  const rules = [
    ...ELECTRONIC_RULES,
    ...(language.rules?.(tools) ?? []),
    ...numericDateRules(language.dates.isMonthFirst === true),
    ...(language.dates.dayMark === undefined ? [] : [dayMonthRule(language.dates)]),
    ...clockRules(language.times),
    ...(language.ordinals ?? []),
    ...moneyRules(nouns, decimalSign),
    ...measureRules(nouns, { ...language.measures, decimalSign }),
    ...TELEPHONE_RULES,
    ...fractionRules(nouns, language.isFraction ?? isSmallFraction),
    ...abbreviationRules(data.abbreviations),
    ...(language.lastRules?.(tools) ?? []),
    ...(language.sayYear === undefined ? [] : [YEAR_RULE]),
    ...(versus === undefined ? [] : [scoreRule(versus)]),
    VERSION_RULE,
    cardinalRule(decimalSign),
  ];
  const signs = [...UNSPOKEN].map((sign) => [sign, ""] as const);
  return {
    rules,
    verbalizer: createVerbalizer(language, tools),
    decimalSign,
    to: language.amounts.to,
    versus,
    minus,
    signs: new Map([...signs, ...Object.entries(data.signs)]),
  };
}

function isSmallFraction({ numerator, denominator }: Fields): boolean {
  return Number(numerator) < Number(denominator) && Number(denominator) <= 10;
}

function createVerbalizer(language: Language, tools: Tools): Verbalizer {
  const { data, sayYear } = language;
  const { numbers, nouns, amounts } = tools;
  const addressWords = new Map(Object.entries(data.address));
  const ways: Ways = {
    say: (text) => /^[\d.]/.test(text) ? numbers.say(text) : text,
    digits: (text) => numbers.digits(text),
    // Letters one by one, and figures.
    spell: (text) =>
      text.match(/[\p{L}\d]/gu)!.map((sign) => /\d/.test(sign) ? numbers.say(sign) : sign).join(
        " ",
      ),
    version: (text) =>
      text.split(".").map((part) => numbers.cardinal(part)).join(` ${data.address["."] ?? ""} `),
    abbreviation: createAbbreviationReader(data.abbreviations),
    ...language.ways?.(tools),
  };
  const common: Verbalizer = {
    cardinal: (fields) => amounts.cardinal(fields),
    ordinal: ({ number }) => numbers.ordinal(number!),
    telephone: ({ text }) =>
      `${text!.startsWith("+") ? `${data.signs["+"] ?? "+"} ` : ""}${numbers.digits(text!)}`,
    date: ({ month, year, ...fields }, context) =>
      month === undefined
        ? sayYear?.(Number(year), tools) ?? numbers.cardinal(year!)
        : sayDate({ month, year, ...fields }, context, { language, tools }),
    time: ({ hour, minute = "0" }) => {
      const nought = /^0[1-9]/.test(minute) ? `${numbers.cardinal(0)} ` : "";
      const minutes = Number(minute) === 0 ? "" : ` ${nought}${numbers.cardinal(Number(minute))}`;
      return numbers.cardinal(Number(hour)) + minutes;
    },
    money: (fields) => amounts.money(fields),
    measure: (fields) => amounts.measure(fields),
    fraction: (fields, context) => {
      const parts = splitVulgar(fields);
      const { unit, whole } = parts;
      const noun = unit === undefined ? undefined : nouns.unit({ unit });
      const said = language.sayFraction?.(parts, context, tools) ??
        sayFraction(parts, {
          words: data.fractions,
          isFeminine: noun?.gender === "feminine" ||
            language.feminine?.test(context.after) === true,
          numbers,
        });
      return said + (noun?.inflect(whole === undefined ? "1" : "2").replace("{} ", " ") ?? "");
    },
    roman: ({ numeral, mark }) =>
      mark === undefined
        ? numbers.cardinal(parseRoman(numeral!))
        : numbers.ordinal(parseRoman(numeral!)),
    electronic: ({ text }) => sayAddress(text!, { words: addressWords, numbers }),
    verbatim: ({ said, ...fields }) =>
      said!.replaceAll(
        /\{(\w+)(?::(\w+))?\}/g,
        (_, name: string, way = "say") => ways[way]!(fields[name] ?? ""),
      ),
  };
  return { ...common, ...language.verbalizer?.(tools, common) };
}

/** A date as `Intl` formats it, with its numbers in words. */
function sayDate(
  { day, lastDay, month, year }: Fields,
  context: Context,
  { language, tools }: { readonly language: Language; readonly tools: Tools },
): string {
  const { locale, dates: { months, to = "-" }, sayYear } = language;
  const { numbers } = tools;
  const sayDay = (written: string, before: Context) =>
    language.sayDay?.(String(Number(written)), before, tools) ?? numbers.cardinal(Number(written));
  const number = months.get(month!.toLowerCase().replace(/\.$/, "")) ?? Number(month);
  const fullYear = year === undefined ? undefined : readYear(year);
  const format = createDateFormat(locale, {
    day: day === undefined ? undefined : "numeric",
    month: "long",
    year: year === undefined ? undefined : "numeric",
  });
  const parts = format.formatToParts(Date.UTC(fullYear ?? 2000, number - 1, Number(day ?? 1)));
  return parts.map(({ type, value }) => {
    if (type === "year") return sayYear?.(fullYear!, tools) ?? numbers.cardinal(fullYear!);
    if (type !== "day") {
      return value.replace(/^\./, "").replaceAll(/\d+/g, (figures) => numbers.say(figures));
    }
    const first = sayDay(day!, context);
    return lastDay === undefined
      ? first
      : `${first} ${to} ${sayDay(lastDay, { ...context, before: `${to} ` })}`;
  }).join("");
}

/** Gives the numbers of a sign such as `½`. */
function splitVulgar({ vulgar, ...fields }: Fields): Fields {
  if (vulgar === undefined) return fields;
  const [numerator, denominator] = vulgar.normalize("NFKD").split("\u2044");
  return { ...fields, numerator, denominator };
}

/** A fraction whose parts are ordinals, unless they have names. */
function sayFraction(
  { whole, numerator, denominator }: Fields,
  { words: { and, half, names }, isFeminine, numbers }: {
    readonly words: FractionWords;
    readonly isFeminine: boolean;
    readonly numbers: NumberWords;
  },
): string {
  const some = whole === undefined ? "" : `${numbers.cardinal(whole)}${and}`;
  const isOne = numerator === "1";
  if (isOne && denominator === "2") return some + half[isFeminine ? 1 : 0];
  const ordinal = numbers.ordinal(denominator!);
  const [one, many] = names[denominator!] ?? [ordinal, `${ordinal}s`];
  return `${some}${numbers.cardinal(numerator!, "masculine")} ${isOne ? one : many}`;
}
