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
import { fractionRules, measureRules, moneyRules } from "./amount_rules.ts";
import { AmountWords } from "./amount_words.ts";
import {
  clockRules,
  createDateFormat,
  type DateSyntax,
  dayMonthRule,
  numericDateRules,
  readMonth,
  readMonths,
  readYear,
  type TimeSyntax,
} from "./date_rules.ts";
import { ELECTRONIC_RULES, sayAddress } from "./electronic.ts";
import { type IntlSymbols, Nouns, type NounTables } from "./nouns.ts";
import {
  cardinalRule,
  scoreRule,
  TELEPHONE_RULES,
  VERSION_RULE,
  YEAR_RULE,
} from "./number_rules.ts";
import { type NumberModule, type NumberStyle, NumberWords, parseRoman } from "./numbers.ts";
import { verbalizeText } from "./scanner.ts";
import type { Condition, Context, Fields, Rule, Verbalizer } from "./token.ts";

/** The words of a language. */
export interface LanguageData extends NounTables {
  readonly locale: string;
  readonly style: Omit<NumberStyle, "decimalSign">;
  readonly fractions: FractionWords;
  readonly abbreviations: Abbreviations;
  /** Words for signs in a text, and in addresses. */
  readonly signs: Readonly<Record<string, string>>;
  readonly address: Readonly<Record<string, string>>;
  /** Symbols of units that are words too (`5 in`), and that end names (`Room 4B`). */
  readonly unitWords?: readonly string[];
  readonly unitCodes?: readonly string[];
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

/** What is known of a language. Where a function is left out, the common one is taken. */
export interface Language {
  /** The functions of n2words. */
  readonly load: () => Promise<NumberModule>;
  readonly data: LanguageData;
  /** Where the tables have no units and currencies. */
  readonly symbols?: IntlSymbols;
  readonly inflections?: Partial<NumberStyle>;
  readonly dates: DateSyntax;
  readonly times?: TimeSyntax;
  /** Rules that are tried before the common ones. */
  readonly rules?: (nouns: Nouns) => readonly Rule[];
  /** Ordinal numbers, in Arabic and Roman figures. */
  readonly ordinals?: readonly Rule[];
  /** Rules that are tried after all but those for years, versions and plain numbers. */
  readonly lastRules?: readonly Rule[];
  readonly isFraction?: Condition;
  /** What follows a half if that is feminine: `1/2 taza`. */
  readonly feminine?: RegExp;
  readonly sayDay?: (day: string, context: Context, numbers: NumberWords) => string;
  /** With it, numbers that look like years are read as such. */
  readonly sayYear?: (year: number, numbers: NumberWords) => string;
  readonly sayFraction?: (fields: Fields, numbers: NumberWords) => string;
  readonly verbalizer?: (tools: Tools, common: Verbalizer) => Partial<Verbalizer>;
  /** Functions for `{field:way}` in the words of a rule. */
  readonly ways?: (tools: Tools) => Readonly<Record<string, (text: string) => string>>;
  /** Changes the words of a whole text. */
  readonly finish?: (said: string, text: string) => string;
}

/** Signs that are not spoken unless a language has a word for them; they part words as a blank does. */
const UNSPOKEN =
  "*_~^|\\<>{}[]`+=#@/&$%\u00b4\u00a8\u00b7\u2022\u25e6\u25aa\u25ba\u2713\u2714\u2717\u2718\u2605\u2606\u266a\u266b";

/** Writes the texts of a language out in words. */
export async function createNormalizer(language: Language): Promise<(text: string) => string> {
  const { load, data, symbols, inflections, finish = (said) => said } = language;
  const isPoint = new Intl.NumberFormat(data.locale).format(0.5).includes(".");
  const style = {
    ...data.style,
    ...inflections,
    decimalSign: isPoint ? "." as const : "," as const,
  };
  const numbers = new NumberWords(await load(), style);
  const nouns = new Nouns(data.locale, data, symbols);
  const amounts = new AmountWords(numbers, nouns);
  const signs = [...UNSPOKEN].map((sign) => [sign, ""] as const);
  const grammar = {
    ...style,
    rules: createRules(language, { numbers, nouns, amounts }),
    verbalizer: createVerbalizer(language, { numbers, nouns, amounts }),
    signs: new Map([...signs, ...Object.entries(data.signs)]),
  };
  return (text) => finish(verbalizeText(text, grammar), text);
}

function createRules(language: Language, { nouns, numbers: { style } }: Tools): Rule[] {
  const { data, dates, times = {}, ordinals = [], lastRules = [] } = language;
  const { decimalSign, versus } = style;
  const { abbreviations, unitWords: words = [], unitCodes: codes = [] } = data;
  return [
    ...ELECTRONIC_RULES,
    ...(language.rules?.(nouns) ?? []),
    ...numericDateRules(dates.isMonthFirst === true),
    ...(dates.dayMark === undefined ? [] : [dayMonthRule(readMonths(data.locale), dates)]),
    ...clockRules(times),
    ...ordinals,
    ...moneyRules(nouns, decimalSign),
    ...measureRules(nouns, { decimalSign, words, codes }),
    ...TELEPHONE_RULES,
    ...fractionRules(nouns, language.isFraction ?? isSmallFraction),
    ...abbreviationRules(abbreviations),
    ...lastRules,
    ...(language.sayYear === undefined ? [] : [YEAR_RULE]),
    ...(versus === undefined ? [] : [scoreRule(versus)]),
    VERSION_RULE,
    cardinalRule(decimalSign),
  ];
}

function isSmallFraction({ numerator, denominator }: Fields): boolean {
  return Number(numerator) < Number(denominator) && Number(denominator) <= 10;
}

function createVerbalizer(language: Language, tools: Tools): Verbalizer {
  const { data, sayYear } = language;
  const { numbers, amounts } = tools;
  const { style } = numbers;
  const ways: Readonly<Record<string, (text: string) => string>> = {
    say: (text) => /^[\d.]/.test(text) ? numbers.say(text) : text,
    // Letters one by one, and figures.
    spell: (text) => text.match(/[\p{L}\d]/gu)!.map((sign) => ways["say"]!(sign)).join(" "),
    version: (text) =>
      text.split(".").map((part) => numbers.cardinal(part)).join(` ${data.address["."] ?? ""} `),
    abbreviation: createAbbreviationReader(data.abbreviations),
    ...language.ways?.(tools),
  };
  const common: Verbalizer = {
    cardinal: (fields) => amounts.cardinal(fields),
    ordinal: ({ number }) => numbers.ordinal(number!.replaceAll(",", "")),
    telephone: ({ text, mark }) => {
      const sayGroup = (group: string) =>
        style.saysPairs && /^[1-9]\d$/.test(group)
          ? numbers.cardinal(group)
          : numbers.digits(group);
      const groups = text!.match(/\d+/g)!.map(sayGroup).join(mark === "groups" ? ", " : " ");
      return text!.startsWith("+") ? `${data.signs["+"] ?? "+"} ${groups}` : groups;
    },
    date: ({ month, year, ...fields }, context) =>
      month === undefined
        ? sayYear?.(Number(year), numbers) ?? numbers.cardinal(year!)
        : sayDate({ month, year, ...fields }, context, { language, numbers }),
    time: ({ hour, minute = "00" }) => {
      const nought = /^0[1-9]/.test(minute) ? `${numbers.cardinal(0)} ` : "";
      const minutes = minute === "00" ? "" : ` ${nought}${numbers.cardinal(Number(minute))}`;
      return numbers.cardinal(Number(hour)) + minutes;
    },
    money: (fields) => amounts.money(fields),
    measure: (fields) => amounts.measure(fields),
    fraction: (fields, { after }) => sayFraction(fields, { language, tools, after }),
    roman: ({ numeral, mark }) =>
      mark === undefined
        ? numbers.cardinal(parseRoman(numeral!))
        : numbers.ordinal(parseRoman(numeral!)),
    electronic: ({ text }) => sayAddress(text!, data.address, numbers),
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
  { language, numbers }: { readonly language: Language; readonly numbers: NumberWords },
): string {
  const { data: { locale }, dates: { to = "-" }, sayYear } = language;
  const sayDay = (written: string, { before }: { readonly before: string }) =>
    language.sayDay?.(String(Number(written)), { ...context, before }, numbers) ??
      numbers.cardinal(Number(written));
  const fullYear = year === undefined ? 2000 : readYear(year);
  const format = createDateFormat(locale, {
    day: day === undefined ? undefined : "numeric",
    month: "long",
    year: year === undefined ? undefined : "numeric",
  });
  const date = Date.UTC(fullYear, readMonth(month!, locale) - 1, Number(day ?? 1));
  return format.formatToParts(date).map(({ type, value }) => {
    if (type === "year") return sayYear?.(fullYear, numbers) ?? numbers.cardinal(fullYear);
    if (type === "day") {
      const last = lastDay === undefined ? "" : ` ${to} ${sayDay(lastDay, { before: to })}`;
      return sayDay(day!, context) + last;
    }
    return value.replace(/^\./, "").replaceAll(/\d+/g, (figures) => numbers.cardinal(figures));
  }).join("");
}

/** A fraction whose parts are ordinals, unless they have names; a unit may stand behind it. */
function sayFraction(
  { whole, vulgar, unit, ...fields }: Fields,
  { language, tools: { numbers, nouns }, after }: {
    readonly language: Language;
    readonly tools: Tools;
    readonly after: string;
  },
): string {
  const [numerator, denominator] = vulgar?.normalize("NFKD").split("\u2044") ??
    [fields["numerator"]!, fields["denominator"]!];
  const { and, half, names } = language.data.fractions;
  const noun = unit === undefined ? undefined : nouns.unit({ unit });
  const name = noun === undefined
    ? ""
    : nouns.inflect(noun, whole === undefined ? "1" : "2").replace("{}", "");
  const own = language.sayFraction?.({ whole, numerator, denominator }, numbers);
  if (own !== undefined) return own + name;
  const some = whole === undefined ? "" : `${numbers.cardinal(whole)}${and}`;
  const isFeminine = noun?.gender === "feminine" || language.feminine?.test(after);
  if (numerator === "1" && denominator === "2") return some + half[isFeminine ? 1 : 0] + name;
  const ordinal = numbers.ordinal(denominator!);
  const [one, many] = names[denominator!] ?? [ordinal, `${ordinal}s`];
  return `${some}${numbers.cardinal(numerator!, "masculine")} ${
    numerator === "1" ? one : many
  }${name}`;
}
