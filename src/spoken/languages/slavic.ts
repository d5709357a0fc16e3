/**
 * Polish, Russian and Ukrainian.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { endIn, hoursAndMinuteUnits, sayMinutes, setOf } from "./common.ts";
import { replaceAll, type Replacements } from "../rule.ts";

/** Ordinals in other cases and genders. */
const RUSSIAN_GENITIVE: Replacements = [[/третий$/, "третьего"], [/(?:ый|ой)$/, "ого"]];
const RUSSIAN_PREPOSITIONAL: Replacements = [[/третий$/, "третьем"], [/(?:ый|ой)$/, "ом"]];
const RUSSIAN_FEMININE: Replacements = [[/третий$/, "третья"], [/(?:ый|ой)$/, "ая"]];
const RUSSIAN_NEUTER: Replacements = [[/третий$/, "третье"], [/(?:ый|ой)$/, "ое"]];
const UKRAINIAN_GENITIVE: Replacements = [[/третій$/, "третього"], [/ий$/, "ого"]];
const UKRAINIAN_LOCATIVE: Replacements = [[/третій$/, "третьому"], [/ий$/, "ому"]];
const UKRAINIAN_FEMININE: Replacements = [[/третій$/, "третя"], [/ий$/, "а"]];
const UKRAINIAN_FEMININE_GENITIVE: Replacements = [[/третій$/, "третьої"], [/ий$/, "ої"]];
const UKRAINIAN_FEMININE_LOCATIVE: Replacements = [[/ий$/, "ій"]];
const POLISH_GENITIVE: Replacements = [[/i$/, "iego"], [/y(?= |$)/g, "ego"]];
const POLISH_LOCATIVE: Replacements = [[/i$/, "im"], [/y(?= |$)/g, "ym"]];
const POLISH_FEMININE: Replacements = [[/gi$/, "ga"], [/ci$/, "cia"], [/y(?= |$)/g, "a"]];
const POLISH_FEMININE_LOCATIVE: Replacements = [[/i$/, "iej"], [/y(?= |$)/g, "ej"]];
const POLISH_LOCATIVE_WORDS = endIn("o|od|do|po|około|godzinie");
const UKRAINIAN_LOCATIVE_WORDS = endIn("о|об");
const UKRAINIAN_GENITIVE_WORDS = endIn("з|із|від|до|після|близько");

export const POLISH: Language = {
  locale: "pl",
  decimalSign: ",",
  load: () => import("n2words/pl-PL"),
  shortWords: [[/\bo godz\.?(?= ?\d)/g, "o godzinie"], [/\bgodz\.?(?= ?\d)/g, "godzina"]],
  corrections: [[/dwa tysięczny/, "dwutysięczny"]],
  agreement: { neuter: [[/^jeden$/, "jedno"]] },
  genders: {
    feminine: setOf("mile foot ounce hour minute second millisecond INR TRY SEK NOK DKK CZK UAH"),
    neuter: setOf("EUR"),
  },
  square: {
    one: "{} kwadratowy",
    few: "{} kwadratowe",
    many: "{} kwadratowych",
    other: "{} kwadratowego",
  },
  cubic: {
    one: "{} sześcienny",
    few: "{} sześcienne",
    many: "{} sześciennych",
    other: "{} sześciennego",
  },
  andCents: " ",
  currencyNoun: "first",
  clock: {
    say: (hour, minute, context) => {
      const { say, before } = context;
      const isLocative = POLISH_LOCATIVE_WORDS.test(before);
      const endings = isLocative ? POLISH_FEMININE_LOCATIVE : POLISH_FEMININE;
      const hours = hour === 0 ? say.cardinal(0) : replaceAll(say.ordinal(hour), endings);
      return hours + sayMinutes(minute, context);
    },
  },
  dates: {
    yearForms: [
      { noun: "roku|r\\.", after: endIn("w|o|po"), endings: POLISH_LOCATIVE, said: "roku" },
      { noun: "roku|r\\.", endings: POLISH_GENITIVE, said: "roku" },
      { noun: "rok", endings: [], said: "rok" },
    ],
    day: (day, { say }) => replaceAll(say.ordinal(day), POLISH_GENITIVE),
    year: (year, { say }) => replaceAll(say.ordinal(year), POLISH_GENITIVE),
  },
};

export const RUSSIAN: Language = {
  locale: "ru",
  decimalSign: ",",
  load: () => import("n2words/ru-RU"),
  corrections: [[/^одна (?=тысяча)/, ""]],
  words: setOf("с"),
  genders: {
    feminine: setOf("mile ounce minute second millisecond week INR JPY TRY SEK NOK DKK CZK UAH"),
  },
  square: {
    one: "квадратный {}",
    few: "квадратных {}",
    many: "квадратных {}",
    other: "квадратного {}",
  },
  cubic: {
    one: "кубический {}",
    few: "кубических {}",
    many: "кубических {}",
    other: "кубического {}",
  },
  andCents: " ",
  currencyNoun: "last",
  clock: {
    say: hoursAndMinuteUnits,
  },
  dates: {
    yearForms: [
      { noun: "году", endings: RUSSIAN_PREPOSITIONAL, said: "году" },
      { noun: "года", endings: RUSSIAN_GENITIVE, said: "года" },
      { noun: "год", endings: [], said: "год" },
      { noun: "г\\.?", after: endIn("в|о"), endings: RUSSIAN_PREPOSITIONAL, said: "году" },
      { noun: "г\\.?", endings: RUSSIAN_GENITIVE, said: "года" },
    ],
    day: (day, { say }) => replaceAll(say.ordinal(day), RUSSIAN_GENITIVE),
    year: (year, { say }) => replaceAll(say.ordinal(year), RUSSIAN_GENITIVE),
  },
  ordinals: [
    { pattern: /(\d+)-(й|ый|ой)(?!\p{L})/gu, say: (number, _, { say }) => say.ordinal(number) },
    {
      pattern: /(\d+)-(я|ая)(?!\p{L})/gu,
      say: (number, _, { say }) => replaceAll(say.ordinal(number), RUSSIAN_FEMININE),
    },
    {
      pattern: /(\d+)-(е|ое)(?!\p{L})/gu,
      say: (number, _, { say }) => replaceAll(say.ordinal(number), RUSSIAN_NEUTER),
    },
    {
      pattern: /(\d+)-(го|ого)(?!\p{L})/gu,
      say: (number, _, { say }) => replaceAll(say.ordinal(number), RUSSIAN_GENITIVE),
    },
  ],
};

export const UKRAINIAN: Language = {
  locale: "uk",
  decimalSign: ",",
  load: () => import("n2words/uk-UA"),
  // They have the Latin letter.
  corrections: [[/i/g, "і"], [/^одна (?=тисяча)/, ""]],
  genders: {
    feminine: setOf("hour minute second millisecond INR JPY TRY SEK NOK DKK CZK UAH"),
  },
  square: {
    one: "квадратний {}",
    few: "квадратні {}",
    many: "квадратних {}",
    other: "квадратного {}",
  },
  cubic: {
    one: "кубічний {}",
    few: "кубічні {}",
    many: "кубічних {}",
    other: "кубічного {}",
  },
  andCents: " ",
  currencyNoun: "last",
  clock: {
    say: (hour, minute, context) => {
      const { say, before } = context;
      const endings = UKRAINIAN_LOCATIVE_WORDS.test(before)
        ? UKRAINIAN_FEMININE_LOCATIVE
        : UKRAINIAN_GENITIVE_WORDS.test(before)
        ? UKRAINIAN_FEMININE_GENITIVE
        : UKRAINIAN_FEMININE;
      const hours = hour === 0 ? say.cardinal(0) : replaceAll(say.ordinal(hour), endings);
      return hours + sayMinutes(minute, context);
    },
  },
  dates: {
    yearForms: [
      { noun: "році", endings: UKRAINIAN_LOCATIVE, said: "році" },
      { noun: "року", endings: UKRAINIAN_GENITIVE, said: "року" },
      { noun: "рік", endings: [], said: "рік" },
      { noun: "р\\.", endings: UKRAINIAN_GENITIVE, said: "року" },
    ],
    day: (day, { say }) => replaceAll(say.ordinal(day), UKRAINIAN_GENITIVE),
    year: (year, { say }) => replaceAll(say.ordinal(year), UKRAINIAN_GENITIVE),
  },
};
