/**
 * Italian.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { rule } from "../token.ts";
import data from "./italian.json" with { type: "json" };

export const ITALIAN: Language = {
  locale: "it",
  load: () => import("n2words/it-IT"),
  data,
  numbers: {
    decimalSign: ",",
    minus: "meno",
    point: "virgola",
    corrections: [[/(?<=mila) e /g, ""]],
    agreement: { masculine: [[/\buno$/, "un"]], feminine: [[/\buno$/, "una"]] },
    ordinalAgreement: { feminine: [[/o$/, "a"]] },
  },
  amounts: {
    to: "a",
    andCents: " e ",
    link: (noun) => ` di ${noun}`,
    elisions: [[/\buna (?=[aeiou])/, "un'"]],
  },
  measures: { codes: ["A", "B", "J", "V", "t"] },
  dates: { months: readMonths("it"), dayMark: "[º°]", to: "al" },
  times: { prefix: "ore|alle|dalle|le|Alle|Dalle", letter: "h" },
  versus: "a",
  feminine: /^ \p{L}+a(?!\p{L})/u,
  ordinals: [
    rule("roman", { mark: "ordinal" })`(?<!\p{L})(?<numeral>[IVX]+)(?= secolo)`,
    rule("ordinal")`(?<![\p{L}\d.,])(?<number>\d+)(?<mark>[ºª]|°(?!\s?[CF]\b)(?= \p{L}{2}))`,
  ],
  sayDay: (day, _, { numbers }) => day === "1" ? numbers.ordinal(1) : numbers.cardinal(day),
  verbalizer: ({ numbers }) => ({
    ordinal: ({ number, mark }) =>
      numbers.ordinal(number!, mark === "ª" ? "feminine" : "masculine"),
    time: ({ hour, minute = "0" }) =>
      numbers.cardinal(Number(hour), "feminine") +
      (Number(minute) === 0 ? "" : ` e ${numbers.cardinal(Number(minute))}`),
  }),
};
