/**
 * German.
 *
 * @module
 */
import { CLOCK, HOUR, makeDayMonthRule, MINUTE, STOP, validDate } from "../common_rules.ts";
import type { Language } from "../language.ts";
import { type NumberWords, parseRoman } from "../numbers.ts";
import { type Context, tag, words } from "../token.ts";
import data from "./german.json" with { type: "json" };

const matchAtEnd = (words: string) => new RegExp(String.raw`(?:^|[^\p{L}])(?:${words})\s*$`, "iu");
const EIN = "(?:[mdsk]?ein|ihr|unser|eue?r)";
/** Words after which an ordinal ends in -n. */
const WEAK_N = matchAtEnd(
  `am|vom|zum|beim|im|zur|dem|den|des|bis|seit|ab|spätestens|${EIN}e[rsmn]|(?:in|an|auf|aus|bei|mit|nach|von|zu|seit) (?:der|die)`,
);
/** Words after which an ordinal ends in -e. */
const WEAK_E = matchAtEnd(`der|die|das|diese[rs]?|jede[rs]?|${EIN}e`);
/** Articles and other words before an ordinal. */
export const DETERMINER =
  `der|die|das|dem|den|des|diese[rsmn]?|im|am|zum|zur|vom|beim|jede[rsmn]?|${EIN}(?:e[rsmn]?)?`;
const NEUTER = "Jahrhunderts?|Jh\\b|Kapitel|Semester|Schuljahr|Lebensjahr";
const FEMININE = "Auflage|Klasse|Etage|Runde|Staffel|Bundesliga|Liga";
/** Nouns after an ordinal. */
export const COUNTED = `${NEUTER}|${FEMININE}|Stock|Platz|Geburtstag|Weltkriegs?|Spieltag`;

const SHORT_CLOCK = String.raw`${HOUR}(?:[.:]${MINUTE})?`;

/** Text between two ordinals that belong together: " und " in "20. und 21." */
const AND = String.raw`(?:\/|, |,? (?:und|oder|bis|bzw\.|beziehungsweise|sowie|wie|noch) )`;
/** Ordinals that precede another and belong to it. */
const JOINED = String.raw`(?:\d{1,3}\.${AND})*`;
/** Ordinals that follow another and belong to it. */
const JOINED_AFTER = String.raw`(?:${AND}\d{1,3}\.)*`;
/** Like {@linkcode JOINED}, but allows nouns too: "1. Mai und". */
const JOINED_BEFORE = new RegExp(String.raw`(?:\d{1,3}\.(?: \p{Lu}\p{L}+)?${AND})*$`, "u");
/** Prepositions that directly precede an ordinal in the dative: "in 2. Auflage". */
const DATIVE = matchAtEnd("in|mit|aus|nach|von|zu|bei|auf");
const IS_NEUTER = new RegExp(
  String
    .raw`^${JOINED_AFTER} (?:${NEUTER}|Kind|Mal|Jahr|Spiel|Tor|Buch|Haus|Auto|Quartal|Halbjahr|Viertel|Album|` +
    String.raw`\p{L}+(?:chen|lein|ment|tum|ium|eum|äum)(?!\p{L}))`,
  "u",
);
const IS_FEMININE = new RegExp(`^${JOINED_AFTER} (?:${FEMININE})`);

/**
 * Says an ordinal with the ending that its context requires. In "am 20. und 21." both ordinals share the context of the
 * first.
 */
function sayOrdinal(digits: string, { before, after }: Context, numbers: NumberWords): string {
  const said = numbers.ordinal(digits);
  const words = before.replace(JOINED_BEFORE, "");
  if (WEAK_N.test(words)) return `${said}n`;
  if (WEAK_E.test(words)) return said;
  const isDative = DATIVE.test(words);
  if (IS_FEMININE.test(after)) return isDative ? `${said}r` : said;
  if (IS_NEUTER.test(after)) return `${said}${isDative ? "m" : "s"}`;
  return `${said}r`;
}

/** Years from 1100 to 1999 in hundreds: neunzehnhundertneunzig. */
function sayYear(year: number, numbers: NumberWords): string {
  if (year < 1_100 || year >= 2_000) return numbers.cardinal(year);
  const rest = year % 100;
  const end = rest === 0 ? "" : numbers.cardinal(rest);
  return `${numbers.cardinal(Math.floor(year / 100))}hundert${end}`;
}

export const GERMAN: Language = {
  load: () => import("n2words/de-DE"),
  data,
  inflections: {
    agreement: {
      masculine: [[/\beins$/, "ein"]],
      feminine: [[/\beins$/, "eine"]],
      neuter: [[/\beins$/, "ein"]],
    },
  },
  rules: [
    makeDayMonthRule("de", String.raw`\.`),
    tag.time`${CLOCK}\s?Uhr`,
    tag.time`${SHORT_CLOCK}(?=\s?[-\u2013]\s?\d{1,2}(?:[.:]\d\d)?\s?Uhr)`,
    tag.time`${SHORT_CLOCK}\s?Uhr`,
    words`{text}straße <- (?<!\p{L})(?<text>\p{Lu}\p{L}+)str${STOP}`,
    validDate`(?<![\d.])(?<day>[0-3]?\d)\.(?<month>[01]?\d)(?:\.(?=\s*[^\s\d])|(?=\.\s*$))(?!\s?Uhr)`,
    tag.ordinal`(?<=\b(?i:${DETERMINER}) ${JOINED})(?<number>\d{1,3})\.(?= \p{L}|${AND}\d{1,3}\.)`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>\d{1,3})\.(?=${JOINED_AFTER} (?:${COUNTED}))`,
  ],
  // A number that is almost always a year.
  lastRules: [tag.date`(?<![\p{L}\d.,:\/$+-])(?<year>(?:1[1-9]|20)\d\d)(?![\d:\/]|[.,]\d)`],
  sayDay: sayOrdinal,
  sayYear,
  verbalizer: ({ numbers }) => ({
    ordinal: ({ number }, context) => sayOrdinal(number!, context, numbers),
    // A ruler: Heinrich der Achte.
    roman: ({ numeral }, { before }) => {
      const said = numbers.ordinal(parseRoman(numeral!));
      const article = /(?:a|Elisabeth|Margarethe) $/.test(before) ? "die" : "der";
      return `${article} ${said[0]!.toUpperCase()}${said.slice(1)}`;
    },
    time: ({ hour, ...fields }, { after }) => {
      const hours = numbers.cardinal(Number(hour), "masculine");
      const minutes = numbers.minutes(fields);
      // For a range, "Uhr" is said only once, after its end.
      const isStart = /^\s?[-\u2013]\s?\d{1,2}(?:[.:]\d\d)?\s?Uhr/.test(after);
      return minutes === "" && isStart ? hours : `${hours} Uhr${minutes}`;
    },
  }),
  formatters: ({ numbers }) => ({ decade: (text) => `${sayYear(Number(text), numbers)}er` }),
};
