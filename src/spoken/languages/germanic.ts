/**
 * German, Dutch and Swedish.
 *
 * @module
 */
import type { Language, MatchContext } from "../language.ts";
import {
  cardinalDay,
  endIn,
  hoursAndMinutes,
  sayMinutes,
  setOf,
  yearInHundreds,
} from "./common.ts";

const SWEDISH_DAYS =
  ("första andra tredje fjärde femte sjätte sjunde åttonde nionde tionde elfte tolfte trettonde " +
    "fjortonde femtonde sextonde sjuttonde artonde nittonde tjugonde tjugoförsta tjugoandra tjugotredje tjugofjärde " +
    "tjugofemte tjugosjätte tjugosjunde tjugoåttonde tjugonionde trettionde trettioförsta").split(
      " ",
    );

const GERMAN_WEAK_N = endIn(
  "am|vom|zum|beim|im|zur|dem|den|des|bis|seit|ab|einem|einen|(?:in|an|auf|aus|bei|mit|nach|von|zu|seit) (?:der|die)",
);

const GERMAN_WEAK_E = endIn("der|die|das|diese[rs]?|jede[rs]?");

function germanOrdinal(number: number | string, { say, before }: MatchContext): string {
  const words = say.ordinal(number);
  if (GERMAN_WEAK_N.test(before)) return `${words}n`;
  return GERMAN_WEAK_E.test(before) ? words : `${words}r`;
}

export const GERMAN: Language = {
  locale: "de",
  decimalSign: ",",
  load: () => import("n2words/de-DE"),
  shortWords: [
    [/\b1 Mio\./g, "eine Million"],
    [/\bMio\./g, "Millionen"],
    [/\b1 Mrd\./g, "eine Milliarde"],
    [/\bMrd\./g, "Milliarden"],
    [/\bz\. ?B\./g, "zum Beispiel"],
    [/\bd\. ?h\./g, "das heißt"],
    [/\bNr\.(?= ?\d)/g, "Nummer"],
    [/\bca\.(?= ?\d)/g, "circa"],
  ],
  point: "Komma",
  agreement: {
    masculine: [[/\beins$/, "ein"]],
    feminine: [[/\beins$/, "eine"]],
    neuter: [[/\beins$/, "ein"]],
  },
  genders: {
    feminine: setOf(
      "mile ounce hour minute second millisecond microsecond nanosecond week gallon INR TRY SEK NOK DKK CZK UAH",
    ),
  },
  square: { other: "Quadrat{}" },
  cubic: { other: "Kubik{}" },
  andCents: " ",
  currencyNoun: "last",
  to: " bis ",
  clock: {
    suffix: "Uhr",
    suffixTells: true,
    say: (hour, minute, { say }) =>
      `${say.cardinal(hour, "masculine")} Uhr${minute === 0 ? "" : ` ${say.cardinal(minute)}`}`,
  },
  dates: {
    day: germanOrdinal,
    hasBareYears: true,
    year: yearInHundreds("hundert"),
  },
  ordinals: [{
    pattern:
      /(?<=\b(?:der|die|das|dem|den|des|diese[rsmn]?|im|am|zum|zur|vom|beim|jede[rsmn]?) )(\d{1,3})(\.)(?= \p{L})/giu,
    say: (number, _, context) => germanOrdinal(number, context),
  }],
};

export const DUTCH: Language = {
  locale: "nl",
  decimalSign: ",",
  load: () => import("n2words/nl-NL"),
  // Degrees are not of arcs only.
  words: setOf("u"),
  signs: { boog: "" },
  square: { other: "vierkante {}" },
  cubic: { other: "kubieke {}" },
  andCents: " ",
  currencyNoun: "last",
  to: " tot ",
  clock: {
    suffix: String.raw`(?:uur|u\.?)(?!\p{L})`,
    suffixTells: true,
    say: hoursAndMinutes,
  },
  dates: { day: cardinalDay },
  ordinals: [{
    pattern: /(\d+)(e|ste|de)(?![\p{L}\d])/gu,
    say: (number, _, { say }) => say.ordinal(number),
  }],
};

export const SWEDISH: Language = {
  locale: "sv",
  decimalSign: ",",
  load: () => import("n2words/sv-SE"),
  shortWords: [[/\bkl\.?(?= ?\d)/g, "klockan"]],
  corrections: [[/(?<=\p{L})-(?=\p{L})/gu, ""], [/ och /g, " "], [
    /\bmiljon\b(?<!\ben miljon)/g,
    "miljoner",
  ]],
  agreement: { masculine: [[/ett$/, "en"]] },
  genders: { neuter: setOf("kilogram gram milligram pound ounce day year acre GBP") },
  square: { other: "kvadrat{}" },
  cubic: { other: "kubik{}" },
  andCents: " ",
  currencyNoun: "last",
  to: " till ",
  clock: {
    prefix: "klockan",
    say: (hour, minute, context) => context.say.cardinal(hour) + sayMinutes(minute, context),
  },
  dates: {
    hasBareYears: true,
    day: (day) => SWEDISH_DAYS[day - 1]!,
    year: yearInHundreds("hundra"),
  },
  ordinals: [{
    pattern: /(?<!\d)([1-9]|[12]\d|3[01]):(a|e)(?!\p{L})/gu,
    say: (number) => SWEDISH_DAYS[Number(number) - 1]!,
  }],
};
