/**
 * French, Italian, Portuguese as in Brazil, and Spanish.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { CLOCK, dayMonthRule, HOUR, MINUTE } from "../date_rules.ts";
import { tag, words } from "../token.ts";
import french from "./french.json" with { type: "json" };
import italian from "./italian.json" with { type: "json" };
import portuguese from "./portuguese.json" with { type: "json" };
import spanish from "./spanish.json" with { type: "json" };

/** `14h30`, but not a duration. */
const HOUR_LETTER_RULE = tag.time`(?<!\d-)${HOUR}\s?h\s?${MINUTE}(?!\s?min|[\p{L}\d])`;

/**
 * What the four have in common: ordinals have a gender, and so have hours.
 *
 * @param clock the word between hours and minutes; the noun of hours is said of `all`, of `full` ones, or of `none`.
 */
function create({ and, says }: typeof french.clock, language: Language): Language {
  return {
    feminine: /^ \p{L}+a(?!\p{L})/u,
    ...language,
    verbalizer: (amounts) => ({
      ordinal: ({ number, mark = "" }) => {
        const isFeminine = /^[ªa]$|re$/.test(mark);
        const said = amounts.numbers.ordinal(number!, isFeminine ? "feminine" : "masculine");
        // Before a noun: "tercer piso".
        return mark === "er" ? said.replace(/o$/, "") : said;
      },
      time: ({ hour, minute = "00" }) => {
        const hasNoun = says === "all" || says === "full" && minute === "00";
        const hours = hasNoun
          ? amounts.measure({ number: String(Number(hour)), unit: "h" })
          : amounts.numbers.cardinal(Number(hour), "feminine");
        return hours + (minute === "00" ? "" : `${and}${amounts.numbers.cardinal(Number(minute))}`);
      },
    }),
  };
}

/** The first of a month is an ordinal. */
const sayDay: Language["sayDay"] = (day, _, numbers) =>
  day === "1" ? numbers.ordinal(1) : numbers.cardinal(day);

export const FRENCH: Language = create(french.clock, {
  load: () => import("n2words/fr-FR"),
  data: french,
  inflections: {
    agreement: { feminine: [[/\bun$/, "une"]] },
    ordinalAgreement: { feminine: [[/premier$/, "première"]] },
    elisions: [[/\bde (?=[aeiouhéœ])/i, "d'"]],
  },
  rules: [
    dayMonthRule("fr", "er"),
    tag.time`${CLOCK}\s?h(?:eures?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    words`seconde <- (?<![\p{L}\d.,])2ndes?(?![\p{L}\d])`,
    words`second <- (?<![\p{L}\d.,])2nds?(?![\p{L}\d])`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>1)(?<mark>er|re|ère)s?(?![\p{L}\d])`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?:e|ème|eme)s?(?![\p{L}\d])`,
    tag
      .ordinalNumeral`(?<!\p{L})(?<numeral>(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(?:e|er|ème)(?= siècle)`,
  ],
  feminine: /^ (?:tasse|heure|livre|douzaine|journée|cuillère|bouteille|portion|page)/,
  sayDay,
});

export const ITALIAN: Language = create(italian.clock, {
  load: () => import("n2words/it-IT"),
  data: italian,
  inflections: {
    corrections: [[/(?<=mila) e /g, ""]],
    agreement: { masculine: [[/\buno$/, "un"]], feminine: [[/\buno$/, "una"]] },
    ordinalAgreement: { feminine: [[/o$/, "a"]] },
    elisions: [[/\buna (?=[aeiou])/, "un'"]],
  },
  rules: [
    dayMonthRule("it", "[º°]"),
    HOUR_LETTER_RULE,
    tag.time`(?<=(?<!\p{L})(?:ore|alle|dalle|le|Alle|Dalle)\s)${HOUR}\.${MINUTE}(?!\d|[.,]\d)`,
    tag.ordinalNumeral`(?<!\p{L})(?<numeral>[IVX]+)(?= secolo)`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?<mark>[ºª]|°(?!\s?[CF]\b)(?= \p{L}{2}))`,
  ],
  sayDay,
});

export const PORTUGUESE: Language = create(portuguese.clock, {
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
    dayMonthRule("pt", "[º°]", "de"),
    tag.time`${CLOCK}\s?h(?:oras|rs?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    tag.roman`(?<=\b[sS]éculo )(?<numeral>[IVX]+)(?!\p{L})`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>[ºª]|[oa](?=\s))(?!C)`,
  ],
  sayDay,
});

export const SPANISH: Language = create(spanish.clock, {
  load: () => import("n2words/es-ES"),
  data: spanish,
  inflections: {
    corrections: [[/dieciseis/g, "dieciséis"], [/cienta/g, "ciento"]],
    agreement: {
      masculine: [[/veintiuno$/, "veintiún"], [/\buno$/, "un"]],
      feminine: [[/veintiuno$/, "veintiuna"], [/\buno$/, "una"]],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  rules: [
    dayMonthRule("es", "[º°]", "del?"),
    tag.time`${CLOCK}\s?h(?:oras|rs?)?\.?(?!\p{L})`,
    HOUR_LETTER_RULE,
    tag.roman`(?<=\b[sS]iglo )(?<numeral>[IVX]+)(?!\p{L})`,
    tag.ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>er(?![\p{L}\d])|[ºª]|[oa](?=\s))(?!C)`,
  ],
});
