/**
 * Makes the normalizer of a language from the common rules and verbalizers, and the language's own data and rules.
 *
 * @module
 */
import {
  AmountWords,
  type FractionWords,
  makeFractionRules,
  makeMeasureRules,
  makeMoneyRules,
} from "./amounts.ts";
import { type IntlSymbols, Nouns, type NounTables, type Table } from "./nouns.ts";
import {
  type Abbreviations,
  CLOCK_RULE,
  createDateFormat,
  ELECTRONIC_RULES,
  expandAbbreviation,
  makeAbbreviationRules,
  makeCardinalRule,
  makeNumericDateRules,
  makeScoreRule,
  readMonth,
  readYear,
  TELEPHONE_RULES,
  VERSION_RULE,
} from "./common_rules.ts";
import {
  matchAny,
  type NumberModule,
  type NumberStyle,
  NumberWords,
  parseRoman,
} from "./numbers.ts";
import {
  type Condition,
  type Context,
  type Fields,
  type Rule,
  rule,
  Scanner,
  type TokenClass,
  type Verbalizer,
} from "./token.ts";

/** The words of a language. */
interface LanguageData extends NounTables {
  readonly locale: string;
  readonly style: Omit<NumberStyle, "decimalSign" | "minus">;
  readonly fractions: FractionWords;
  readonly abbreviations: Abbreviations;
  /** Words for symbols in a text. */
  readonly signs: Table;
  /** Words for symbols in addresses. */
  readonly address: Table;
  /** Whether dates begin with the month. */
  readonly isMonthFirst?: boolean;
  /** Symbols of units that are also words: `5 in`. */
  readonly unitWords?: readonly string[];
  /** Symbols of units that may also end a name: `Room 4B`. */
  readonly unitCodes?: readonly string[];
  /** Rules that are tried before `rules`: class, pattern, and for a verbatim token its words. */
  readonly patterns?: readonly (readonly string[])[];
  /** Like `patterns`, but tried after `lastRules`. */
  readonly lastPatterns?: readonly (readonly string[])[];
  /** Words for `{field:expand}` in the rules. */
  readonly expansions?: Table;
}

/** A language's functions and rules. Functions that are absent have a common default. */
export interface Language {
  /** The functions of n2words. */
  readonly load: () => Promise<NumberModule>;
  readonly data: LanguageData;
  /** Symbols for `Intl`, if the tables have no units and currencies. */
  readonly symbols?: IntlSymbols;
  readonly inflections?: Partial<NumberStyle>;
  /** Rules that are tried before the common ones, except those for addresses. */
  readonly rules?: readonly Rule[];
  /** Rules that are tried after the common ones, except those for scores, versions and plain numbers. */
  readonly lastRules?: readonly Rule[];
  readonly isFraction?: Condition;
  /** Nouns before which the word for one half is feminine: `1/2 taza`. */
  readonly feminine?: RegExp;
  readonly sayDay?: (day: string, context: Context, numbers: NumberWords) => string;
  readonly sayYear?: (year: number, numbers: NumberWords) => string;
  readonly verbalizer?: (tools: AmountWords, common: Verbalizer) => Partial<Verbalizer>;
  /** Functions for `{field:formatter}` in the words of a rule. */
  readonly formatters?: (tools: AmountWords) => Readonly<Record<string, (text: string) => string>>;
  /** Post-processes the words of a whole text. */
  readonly finish?: (said: string, text: string) => string;
}

/** Symbols that are not spoken unless a language has a word for them. They separate words as a space does. */
const UNSPOKEN =
  "*_~^|\\<>{}[]`+=#@/&$%\u00b4\u00a8\u00b7\u2022\u25e6\u25aa\u25ba\u2713\u2714\u2717\u2718\u2605\u2606\u266a\u266b";

/** A field in the words of a rule, perhaps with a formatter. */
const FIELD = /\{(\w+)(?::(\w+))?\}/g;

/** Makes the function that normalizes texts of a language. */
export async function createNormalizer(language: Language): Promise<(text: string) => string> {
  const { load, data, symbols, inflections, finish = (said) => said } = language;
  const module = await load();
  const style: NumberStyle = {
    decimalSign: new Intl.NumberFormat(data.locale).format(0.5).includes(".") ? "." : ",",
    minus: module.toCardinal("-1").split(" ")[0]!,
    ...data.style,
    ...inflections,
  };
  const nouns = new Nouns(data.locale, data, symbols);
  const amounts = new AmountWords(new NumberWords(module, style), nouns);
  const unspoken = [...UNSPOKEN].map((sign) => [sign, ""] as const);
  const signs = new Map([...unspoken, ...Object.entries(data.signs)]);
  const grammar = {
    ...style,
    rules: createRules(language, amounts),
    verbalizer: createVerbalizer(language, amounts),
    signs,
    signPattern: new RegExp(matchAny(signs.keys()), "uy"),
  };
  return (text) => finish(new Scanner(text, grammar).run(), text);
}

function createRules(language: Language, { nouns, numbers }: AmountWords): Rule[] {
  const { data, rules = [], lastRules = [] } = language;
  const { decimalSign, versus } = numbers.style;
  const { abbreviations, unitWords: words = [], unitCodes: codes = [] } = data;
  return [
    ...ELECTRONIC_RULES,
    ...readPatterns(data.patterns),
    ...rules,
    ...makeNumericDateRules(data.isMonthFirst === true),
    CLOCK_RULE,
    ...makeMoneyRules(nouns, decimalSign),
    ...makeMeasureRules(nouns, { decimalSign, words, codes }),
    ...TELEPHONE_RULES,
    ...makeFractionRules(nouns, language.isFraction),
    ...makeAbbreviationRules(abbreviations),
    ...lastRules,
    ...readPatterns(data.lastPatterns),
    ...(versus === undefined ? [] : [makeScoreRule(versus)]),
    VERSION_RULE,
    makeCardinalRule(decimalSign),
  ];
}

function readPatterns(patterns: LanguageData["patterns"] = []): Rule[] {
  return patterns.map(([kind, pattern, said]) => rule(kind as TokenClass, { said })`${pattern!}`);
}

function createVerbalizer(language: Language, amounts: AmountWords): Verbalizer {
  const { data, sayYear } = language;
  const { numbers } = amounts;
  const known = Object.values(data.abbreviations).flatMap((table: Table) => Object.entries(table));
  const abbreviations = new Map(
    known.map(([written, said]) => [written.replaceAll(" ", ""), said] as const),
  );
  const formatters: Readonly<Record<string, (text: string) => string>> = {
    say: (text) => /^[\d.]/.test(text) ? numbers.say(text) : text,
    // Says letters and digits one by one.
    spell: (text) => text.match(/[\p{L}\d]/gu)!.map((sign) => formatters["say"]!(sign)).join(" "),
    version: (text) =>
      text.split(".").map((part) => numbers.cardinal(part)).join(` ${data.address["."] ?? ""} `),
    abbreviation: (text) => expandAbbreviation(text.replaceAll(" ", ""), abbreviations),
    expand: (text) => data.expansions![text]!,
    ...language.formatters?.(amounts),
  };
  const common: Verbalizer = {
    cardinal: (fields) => amounts.cardinal(fields),
    ordinal: ({ number }) => numbers.ordinal(number!.replaceAll(",", "")),
    telephone: ({ text, mark }) => {
      const sayGroup = (group: string) =>
        numbers[numbers.style.saysPairs && /^[1-9]\d$/.test(group) ? "cardinal" : "digits"](group);
      const groups = text!.match(/\d+/g)!.map(sayGroup).join(mark === "groups" ? ", " : " ");
      return text!.startsWith("+") ? `${data.signs["+"] ?? "+"} ${groups}` : groups;
    },
    date: ({ month, year, ...fields }, context) =>
      month === undefined
        ? sayYear?.(Number(year), numbers) ?? numbers.cardinal(year!)
        : sayDate({ month, year, ...fields }, context, { language, numbers }),
    time: ({ hour, ...fields }) =>
      numbers.cardinal(Number(hour)) +
      numbers.minutes(fields, { nought: `${numbers.cardinal(0)} ` }),
    money: (fields) => amounts.money(fields),
    measure: (fields) => amounts.measure(fields),
    fraction: (fields, { after }) =>
      amounts.fraction(fields, data.fractions, language.feminine?.test(after)),
    roman: ({ numeral, mark }) =>
      numbers[mark === undefined ? "cardinal" : "ordinal"](parseRoman(numeral!)),
    electronic: ({ text }) => sayAddress(text!, data.address, numbers),
    verbatim: ({ said, ...fields }) =>
      said!.replaceAll(
        FIELD,
        (_, name: string, formatter = "say") => formatters[formatter]!(fields[name] ?? ""),
      ),
  };
  return { ...common, ...language.verbalizer?.(amounts, common) };
}

/** Says a date as `Intl` formats it, with its numbers in words. */
function sayDate(
  { day, lastDay, month, year }: Fields,
  context: Context,
  { language, numbers }: { readonly language: Language; readonly numbers: NumberWords },
): string {
  const { data: { locale, style: { toDay = "-", saysFirst } }, sayYear } = language;
  const sayPlain = (day: string) =>
    saysFirst && day === "1" ? numbers.ordinal(day) : numbers.cardinal(day);
  const { sayDay = sayPlain } = language;
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
      const first = sayDay(String(Number(day)), context, numbers);
      const last = lastDay &&
        sayDay(String(Number(lastDay)), { ...context, before: toDay }, numbers);
      return last ? `${first} ${toDay} ${last}` : first;
    }
    return value.replace(/^\./, "").replaceAll(/\d+/g, (figures) => numbers.cardinal(figures));
  }).join("");
}

/** Says an address: numbers become words, and so does each symbol; a symbol without a word becomes a space. */
function sayAddress(address: string, words: Table, numbers: NumberWords): string {
  const sayFigures = (figures: string) =>
    /^0\d|^\d{5}/.test(figures) ? numbers.digits(figures) : numbers.cardinal(figures);
  return address.replace(/(?<=.)\/$/, "")
    .replaceAll(/[^\p{L}\p{N}]/gu, (sign) => ` ${words[sign] ?? ""} `)
    .replaceAll(/(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, " ")
    .replaceAll(/\d+/g, sayFigures).replaceAll(/\s+/g, " ").trim();
}
