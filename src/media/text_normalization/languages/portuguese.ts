/**
 * Portuguese, as in Brazil.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { rule } from "../token.ts";
import data from "./portuguese.json" with { type: "json" };

export const PORTUGUESE: Language = {
  locale: "pt",
  load: () => import("n2words/pt-PT"),
  data,
  numbers: {
    decimalSign: ",",
    minus: "menos",
    point: "vírgula",
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
  amounts: { to: "a", andCents: " e ", saysCents: true, link: (noun) => ` de ${noun}` },
  measures: { codes: ["A", "B", "J", "V", "t"] },
  dates: { months: readMonths("pt"), link: "de", dayMark: "[º°]", to: "a" },
  times: { suffix: String.raw`h(?:oras|rs?)?(?!\p{L})`, letter: "h" },
  versus: "a",
  feminine: /^ \p{L}+a(?!\p{L})/u,
  ordinals: [
    { kind: "roman", pattern: /(?<=\b[sS]éculo )(?<numeral>[IVX]+)(?!\p{L})/uy },
    rule("ordinal")`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>[ºª]|[oa](?=\s))(?!C)`,
  ],
  sayDay: (day, _, { numbers }) => day === "1" ? numbers.ordinal(1) : numbers.cardinal(day),
  verbalizer: ({ numbers, amounts }) => ({
    ordinal: ({ number, mark }) =>
      numbers.ordinal(number!, /[ªa]/.test(mark!) ? "feminine" : "masculine"),
    time: ({ hour, minute = "0" }) =>
      Number(minute) === 0
        ? amounts.measure({ number: String(Number(hour)), unit: "h" })
        : `${numbers.cardinal(Number(hour), "feminine")} e ${numbers.cardinal(Number(minute))}`,
  }),
};
