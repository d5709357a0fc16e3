/**
 * French, Italian, Portuguese as in Brazil, and Spanish.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { CLOCK, dayMonthRule, HOUR, MINUTE } from "../date_rules.ts";
import { rule, tag, words } from "../token.ts";
import french from "./french.json" with { type: "json" };
import italian from "./italian.json" with { type: "json" };
import portuguese from "./portuguese.json" with { type: "json" };
import spanish from "./spanish.json" with { type: "json" };

const { ordinal, roman, time } = tag;
const ordinalNumeral = rule("roman", { mark: "ordinal" });
/** `14h30`, but not a duration. */
const HOUR_LETTER_RULE = time`(?<!\d-)${HOUR}\s?h\s?${MINUTE}(?!\s?min|[\p{L}\d])`;

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
        const gender = /^[ªa]$|re$/.test(mark) ? "feminine" : "masculine";
        const said = amounts.numbers.ordinal(number!, gender);
        // Before a noun: "tercer piso".
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
    time`${CLOCK}\s?h(?:eures?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    words`seconde <- (?<![\p{L}\d.,])2ndes?(?![\p{L}\d])`,
    words`second <- (?<![\p{L}\d.,])2nds?(?![\p{L}\d])`,
    ordinal`(?<![\p{L}\d.,])(?<number>1)(?<mark>er|re|ère)s?(?![\p{L}\d])`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?:e|ème|eme)s?(?![\p{L}\d])`,
    ordinalNumeral`(?<!\p{L})(?<numeral>(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(?:e|er|ème)(?= siècle)`,
  ],
  feminine: /^ (?:tasse|heure|livre|douzaine|journée|cuillère|bouteille|portion|page)/,
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
    time`(?<=(?<!\p{L})(?:ore|alle|dalle|le|Alle|Dalle)\s)${HOUR}\.${MINUTE}(?!\d|[.,]\d)`,
    ordinalNumeral`(?<!\p{L})(?<numeral>[IVX]+)(?= secolo)`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?<mark>[ºª]|°(?!\s?[CF]\b)(?= \p{L}{2}))`,
  ],
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
    time`${CLOCK}\s?h(?:oras|rs?)?(?!\p{L})`,
    HOUR_LETTER_RULE,
    roman`(?<=\b[sS]éculo )(?<numeral>[IVX]+)(?!\p{L})`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>[ºª]|[oa](?=\s))(?!C)`,
  ],
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
    time`${CLOCK}\s?h(?:oras|rs?)?\.?(?!\p{L})`,
    HOUR_LETTER_RULE,
    roman`(?<=\b[sS]iglo )(?<numeral>[IVX]+)(?!\p{L})`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>er(?![\p{L}\d])|[ºª]|[oa](?=\s))(?!C)`,
  ],
});
