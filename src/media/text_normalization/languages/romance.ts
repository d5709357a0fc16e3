/**
 * French, Italian, Brazilian Portuguese, and Spanish.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { CLOCK, HOUR, makeDayMonthRule, MINUTE } from "../common_rules.ts";
import { parseRoman } from "../numbers.ts";
import { rule, tag } from "../token.ts";
import data from "./romance.json" with { type: "json" };

const { french, italian, portuguese, spanish } = data;
const { ordinal, time } = tag;
const ordinalNumeral = rule("roman", { mark: "ordinal" });
/** `14h30`, but not a duration. */
const HOUR_LETTER_RULE = time`(?<!\d-)${HOUR}\s?h\s?${MINUTE}(?!\s?min|[\p{L}\d])`;

/** Names of queens, whose ordinals are feminine. */
const QUEEN = /(?:a|Isabel|[EÉ]lisabeth|Elizabeth|Catherine) $/;

/** Data that only these languages have. */
interface RomanceData {
  /**
   * `and` is the word between hours and minutes. `says` tells when the noun "hours" is said: `all`, `full` (only
   * without minutes), or `none`.
   */
  readonly clock: { readonly and: string; readonly says: string };
  /** A pattern for feminine nouns. */
  readonly feminineNouns: string;
  /** A pattern for nouns that a number follows (`page 1`). */
  readonly numberedNouns: string;
  /** A pattern for words that are not nouns. */
  readonly particles: string;
  /** Rulers up to this number have ordinals: "Alfonso décimo", "Alfonso trece". */
  readonly rulers: number;
}

/** Makes one of the four languages, in which ordinals, hours and numbers before nouns have a gender. */
function createRomance(
  { clock: { and, says }, rulers, ...nouns }: RomanceData,
  language: Language,
): Language {
  const feminine = new RegExp(`^ ${nouns.feminineNouns}(?!\\p{L})`, "u");
  const numbered = new RegExp(`(?<!\\p{L})(?:${nouns.numberedNouns}) $`, "iu");
  const counted = new RegExp(`^ (?!(?:${nouns.particles})(?!\\p{L}))\\p{L}{3}`, "u");
  return {
    feminine,
    ...language,
    verbalizer: (amounts) => ({
      cardinal: (fields, { before, after }) => {
        const counts = counted.test(after) && !numbered.test(before);
        const gender = feminine.test(after) ? "feminine" : "masculine";
        return amounts.cardinal(fields, counts ? { gender } : undefined);
      },
      roman: ({ numeral, mark }, { before }) => {
        const [number, { numbers }] = [parseRoman(numeral!), amounts];
        if (mark === undefined || mark === "" && number > rulers) return numbers.cardinal(number);
        return numbers.ordinal(number, QUEEN.test(before) ? "feminine" : "masculine");
      },
      ordinal: ({ number, mark = "" }) => {
        const gender = /^[ªa]$|re$/.test(mark) ? "feminine" : "masculine";
        const said = amounts.numbers.ordinal(number!, gender);
        // Before a noun, a masculine ordinal loses its o: "tercer piso".
        return mark === "er" ? said.replace(/o$/, "") : said;
      },
      time: ({ hour, ...fields }) => {
        const minutes = amounts.numbers.minutes(fields, { and });
        const hours = says === "all" || says === "full" && minutes === ""
          ? amounts.measure({ number: String(Number(hour)), unit: "h" })
          : amounts.numbers.cardinal(Number(hour), "feminine");
        return hours + minutes;
      },
    }),
  };
}

export const FRENCH: Language = createRomance(french, {
  load: () => import("n2words/fr-FR"),
  data: french,
  inflections: {
    agreement: { feminine: [[/\bun$/, "une"]] },
    ordinalAgreement: { feminine: [[/premier$/, "première"]] },
    elisions: [[/\bde (?=[aeiouhéœ])/i, "d'"]],
  },
  rules: [
    makeDayMonthRule("fr", "er"),
    time`${CLOCK}\s?h(?:eures?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    ordinal`(?<![\p{L}\d.,])(?<number>1)(?<mark>er|re|ère)s?(?![\p{L}\d])`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?:e|ème|eme)s?(?![\p{L}\d])`,
    ordinalNumeral`(?<!\p{L})(?<numeral>(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(?:e|er|ème)(?= siècle)`,
  ],
});

export const ITALIAN: Language = createRomance(italian, {
  load: () => import("n2words/it-IT"),
  data: italian,
  inflections: {
    corrections: [[/(?<=mila) e /g, ""]],
    agreement: { masculine: [[/\buno$/, "un"]], feminine: [[/\buno$/, "una"]] },
    ordinalAgreement: { feminine: [[/o$/, "a"]] },
    elisions: [[/\buna (?=[aeiou])/, "un'"]],
  },
  rules: [
    makeDayMonthRule("it", "[º°]"),
    HOUR_LETTER_RULE,
    time`(?<=(?<!\p{L})(?:ore|alle|dalle|le|Alle|Dalle)\s)${HOUR}\.${MINUTE}(?!\d|[.,]\d)`,
    ordinalNumeral`(?<!\p{L})(?<numeral>[IVX]+)(?= secolo)`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?<mark>[ºª]|°(?!\s?[CF]\b)(?= \p{L}{2}))`,
  ],
});

export const PORTUGUESE: Language = createRomance(portuguese, {
  load: () => import("n2words/pt-PT"),
  data: portuguese,
  inflections: {
    corrections: [[/dezasse(?=is|te)/g, "dezesse"], [/dezanove/g, "dezenove"]],
    agreement: {
      feminine: [
        [/\bum$/, "uma"],
        [/\bdois(?=$| mil(?!h))/, "duas"],
        [/entos\b(?!.*milh)/g, "entas"],
      ],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  rules: [
    makeDayMonthRule("pt", "[º°]", "de"),
    time`${CLOCK}\s?h(?:oras|rs?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>[ºª]|[oa](?=\s))(?!C)`,
  ],
});

export const SPANISH: Language = createRomance(spanish, {
  load: () => import("n2words/es-ES"),
  data: spanish,
  inflections: {
    corrections: [[/dieciseis/g, "dieciséis"], [/\bcienta\b/g, "ciento"]],
    agreement: {
      masculine: [[/veintiuno$/, "veintiún"], [/\buno$/, "un"]],
      feminine: [[/veintiuno$/, "veintiuna"], [/\buno$/, "una"]],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  rules: [
    makeDayMonthRule("es", "[º°]", "del?"),
    time`${CLOCK}\s?h(?:oras|rs?)?\.?(?!\p{L})`,
    HOUR_LETTER_RULE,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>er(?![\p{L}\d])|[ºª]|[oa](?=\s))(?!C)`,
  ],
});
