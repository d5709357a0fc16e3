/**
 * French, Italian, Portuguese as in Brazil, and Spanish.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { rule, words } from "../token.ts";
import french from "./french.json" with { type: "json" };
import italian from "./italian.json" with { type: "json" };
import portuguese from "./portuguese.json" with { type: "json" };
import spanish from "./spanish.json" with { type: "json" };

const ordinal = rule("ordinal");
const numeral = rule("roman");
const ordinalNumeral = rule("roman", { mark: "ordinal" });

/** What the four have in common: ordinals have a gender, and so have hours. */
function create(
  { clock: { and, says }, ...language }: Omit<Language, "verbalizer"> & {
    /** The word between hours and minutes, and which hours have their noun: those with minutes too. */
    readonly clock: { readonly and: string; readonly says: "all" | "full" | "none" };
  },
): Language {
  return {
    feminine: /^ \p{L}+a(?!\p{L})/u,
    ...language,
    verbalizer: ({ numbers, amounts }) => ({
      ordinal: ({ number, mark = "" }) => {
        const isFeminine = /^[ªa]$|re$/.test(mark);
        const said = numbers.ordinal(number!, isFeminine ? "feminine" : "masculine");
        // Before a noun: "tercer piso".
        return mark === "er" ? said.replace(/o$/, "") : said;
      },
      time: ({ hour, minute = "00" }) => {
        const hasNoun = says === "all" || says === "full" && minute === "00";
        const hours = hasNoun
          ? amounts.measure({ number: String(Number(hour)), unit: "h" })
          : numbers.cardinal(Number(hour), "feminine");
        return hours + (minute === "00" ? "" : `${and}${numbers.cardinal(Number(minute))}`);
      },
    }),
  };
}

/** The first of a month is an ordinal. */
const sayDay: Language["sayDay"] = (day, _, numbers) =>
  day === "1" ? numbers.ordinal(1) : numbers.cardinal(day);

export const FRENCH: Language = create({
  load: () => import("n2words/fr-FR"),
  data: french,
  inflections: {
    agreement: { feminine: [[/\bun$/, "une"]] },
    ordinalAgreement: { feminine: [[/premier$/, "première"]] },
    elisions: [[/\bde (?=[aeiouhéœ])/i, "d'"]],
  },
  dates: { dayMark: "er", to: "au" },
  times: { suffix: String.raw`h(?:eures?)?(?!\p{L})`, letter: "h" },
  clock: { and: " ", says: "all" },
  feminine: /^ (?:tasse|heure|livre|douzaine|journée|cuillère|bouteille|portion|page)/,
  ordinals: [
    words`seconde <- (?<![\p{L}\d.,])2ndes?(?![\p{L}\d])`,
    words`second <- (?<![\p{L}\d.,])2nds?(?![\p{L}\d])`,
    ordinal`(?<![\p{L}\d.,])(?<number>1)(?<mark>er|re|ère)s?(?![\p{L}\d])`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?:e|ème|eme)s?(?![\p{L}\d])`,
    ordinalNumeral`(?<!\p{L})(?<numeral>(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(?:e|er|ème)(?= siècle)`,
  ],
  sayDay,
});

export const ITALIAN: Language = create({
  load: () => import("n2words/it-IT"),
  data: italian,
  inflections: {
    corrections: [[/(?<=mila) e /g, ""]],
    agreement: { masculine: [[/\buno$/, "un"]], feminine: [[/\buno$/, "una"]] },
    ordinalAgreement: { feminine: [[/o$/, "a"]] },
    elisions: [[/\buna (?=[aeiou])/, "un'"]],
  },
  dates: { dayMark: "[º°]", to: "al" },
  times: { prefix: "ore|alle|dalle|le|Alle|Dalle", letter: "h" },
  clock: { and: " e ", says: "none" },
  ordinals: [
    ordinalNumeral`(?<!\p{L})(?<numeral>[IVX]+)(?= secolo)`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)(?<mark>[ºª]|°(?!\s?[CF]\b)(?= \p{L}{2}))`,
  ],
  sayDay,
});

export const PORTUGUESE: Language = create({
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
  dates: { link: "de", dayMark: "[º°]", to: "a" },
  times: { suffix: String.raw`h(?:oras|rs?)?(?!\p{L})`, letter: "h" },
  clock: { and: " e ", says: "full" },
  ordinals: [
    numeral`(?<=\b[sS]éculo )(?<numeral>[IVX]+)(?!\p{L})`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>[ºª]|[oa](?=\s))(?!C)`,
  ],
  sayDay,
});

export const SPANISH: Language = create({
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
  dates: { link: "del?", dayMark: "[º°]", to: "al" },
  times: { suffix: String.raw`h(?:oras|rs?)?\.?(?!\p{L})`, letter: "h" },
  clock: { and: " y ", says: "none" },
  ordinals: [
    numeral`(?<=\b[sS]iglo )(?<numeral>[IVX]+)(?!\p{L})`,
    ordinal`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>er(?![\p{L}\d])|[ºª]|[oa](?=\s))(?!C)`,
  ],
});
