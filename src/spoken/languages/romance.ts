/**
 * French, Italian, Portuguese and Spanish.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { cardinalDay, feminineHour, hoursAndMinutes, ordinalFirst, setOf } from "./common.ts";

export const SPANISH: Language = {
  locale: "es",
  decimalSign: ",",
  load: () => import("n2words/es-ES"),
  corrections: [[/dieciseis/g, "dieciséis"], [/ punto /g, " coma "], [/cienta/g, "ciento"]],
  agreement: {
    masculine: [[/veintiuno$/, "veintiún"], [/\buno$/, "un"], [/mill(?:ón|ones)$/, "$& de"]],
    feminine: [[/mill(?:ón|ones)$/, "$& de"]],
  },
  genders: {
    feminine: setOf(
      "mile inch yard pound ounce hour week hectare GBP INR TRY SEK NOK DKK CZK UAH",
    ),
    alone: setOf("percent"),
  },
  square: { one: "{} cuadrado", other: "{} cuadrados" },
  cubic: { one: "{} cúbico", other: "{} cúbicos" },
  andCents: " con ",
  currencyNoun: "first",
  to: " a ",
  clock: {
    suffix: String.raw`h(?:oras|rs?)?\.?(?!\p{L})`,
    letter: "h",
    say: feminineHour("y"),
  },
  dates: { day: cardinalDay },
  ordinals: [
    {
      pattern: /(\d+)\.?(er)(?![\p{L}\d])/gu,
      say: (number, _, { say }) => say.ordinal(number).replace(/o$/, ""),
    },
    {
      pattern: /(\d+)\.?([ºª])/g,
      say: (number, mark, { say }) => say.ordinal(number, mark === "ª" ? "feminine" : "masculine"),
    },
  ],
};

export const FRENCH: Language = {
  locale: "fr",
  decimalSign: ",",
  load: () => import("n2words/fr-FR"),
  agreement: {
    masculine: [[/milli(?:on|ard)s?$/, "$& de"]],
    feminine: [[/\bun$/, "une"], [/milli(?:on|ard)s?$/, "$& de"]],
  },
  signs: { " de euro": " d'euro", " de heure": " d'heure", " de once": " d'once" },
  genders: {
    feminine: setOf(
      "pound ounce hour minute second millisecond microsecond nanosecond week acre GBP INR TRY SEK NOK DKK CZK UAH",
    ),
  },
  square: { one: "{} carré", other: "{} carrés" },
  cubic: { one: "{} cube", other: "{} cubes" },
  andCents: " ",
  currencyNoun: "first",
  to: " à ",
  clock: {
    suffix: String.raw`h(?:eures?)?(?!\p{L})`,
    letter: "h",
    say: hoursAndMinutes,
  },
  dates: { day: ordinalFirst },
  ordinals: [
    {
      pattern: /(?<!\d)(1)(er|re|ère)(?![\p{L}\d])/gu,
      say: (_, mark) => mark === "er" ? "premier" : "première",
    },
    {
      pattern: /(\d+)(e|ème|eme)(?![\p{L}\d])/gu,
      say: (number, _, { say }) => say.ordinal(number),
    },
  ],
};

export const ITALIAN: Language = {
  locale: "it",
  decimalSign: ",",
  load: () => import("n2words/it-IT"),
  corrections: [[/(?<=mila) e /g, ""]],
  agreement: {
    masculine: [[/\buno$/, "un"], [/mili(?:on[ei]|ard[oi])$/, "$& di"]],
    feminine: [[/\buno$/, "una"], [/mili(?:on[ei]|ard[oi])$/, "$& di"]],
  },
  genders: {
    feminine: setOf("mile yard pound ounce hour week GBP INR TRY SEK NOK DKK CZK UAH"),
    alone: setOf("percent"),
  },
  square: { one: "{} quadrato", other: "{} quadrati" },
  cubic: { one: "{} cubo", other: "{} cubi" },
  andCents: " e ",
  currencyNoun: "first",
  clock: {
    letter: "h",
    prefix: "ore|alle|dalle|le",
    say: feminineHour("e"),
  },
  dates: { day: ordinalFirst },
  ordinals: [{
    pattern: /(\d+)([ºª])/g,
    say: (number, mark, { say }) => say.ordinal(number).replace(/o$/, mark === "ª" ? "a" : "o"),
  }],
};

export const PORTUGUESE: Language = {
  locale: "pt",
  decimalSign: ",",
  load: () => import("n2words/pt-PT"),
  // As in Brazil, as the names of units are.
  corrections: [[/dezasse(?=is|te)/g, "dezesse"], [/dezanove/g, "dezenove"]],
  agreement: {
    masculine: [[/milh(?:ão|ões)$/, "$& de"]],
    feminine: [
      [/milh(?:ão|ões)$/, "$& de"],
      [/\bum$/, "uma"],
      [/\bdois(?=$| mil(?!h))/, "duas"],
      [/entos\b(?!.*milh)/g, "entas"],
    ],
  },
  genders: {
    feminine: setOf("mile inch yard pound ounce hour week GBP INR TRY SEK NOK DKK CZK UAH"),
  },
  square: { one: "{} quadrado", other: "{} quadrados" },
  cubic: { one: "{} cúbico", other: "{} cúbicos" },
  andCents: " e ",
  currencyNoun: "first",
  to: " a ",
  clock: {
    suffix: String.raw`h(?:oras|rs?)?(?!\p{L})`,
    letter: "h",
    say: (hour, minute, { say }) =>
      minute === 0
        ? say.unit(hour, "hour")
        : `${say.cardinal(hour, "feminine")} e ${say.cardinal(minute)}`,
  },
  dates: { day: ordinalFirst },
  ordinals: [{
    pattern: /(\d+)\.?([ºª])/g,
    say: (number, mark, { say }) =>
      mark === "ª" ? say.ordinal(number).replaceAll(/o\b/g, "a") : say.ordinal(number),
  }],
};
