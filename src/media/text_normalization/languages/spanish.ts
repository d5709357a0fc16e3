/**
 * Spanish.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { rule } from "../token.ts";
import data from "./spanish.json" with { type: "json" };

export const SPANISH: Language = {
  locale: "es",
  load: () => import("n2words/es-ES"),
  data,
  numbers: {
    decimalSign: ",",
    minus: "menos",
    point: "coma",
    corrections: [[/dieciseis/g, "dieciséis"], [/cienta/g, "ciento"]],
    agreement: {
      masculine: [[/veintiuno$/, "veintiún"], [/\buno$/, "un"]],
      feminine: [[/veintiuno$/, "veintiuna"], [/\buno$/, "una"]],
    },
    ordinalAgreement: { feminine: [[/o\b/g, "a"]] },
  },
  amounts: { to: "a", andCents: " con ", link: (noun) => ` de ${noun}` },
  measures: { codes: ["A", "B", "J", "V", "t"] },
  dates: { months: readMonths("es"), link: "del?", dayMark: "[º°]", to: "al" },
  times: { suffix: String.raw`h(?:oras|rs?)?\.?(?!\p{L})`, letter: "h" },
  versus: "a",
  feminine: /^ \p{L}+a(?!\p{L})/u,
  ordinals: [
    { kind: "roman", pattern: /(?<=\b[sS]iglo )(?<numeral>[IVX]+)(?!\p{L})/uy },
    rule("ordinal")`(?<![\p{L}\d.,])(?<number>\d+)\.?(?<mark>er(?![\p{L}\d])|[ºª]|[oa](?=\s))(?!C)`,
  ],
  verbalizer: ({ numbers }) => ({
    ordinal: ({ number, mark }) => {
      const said = numbers.ordinal(number!, /[ªa]/.test(mark!) ? "feminine" : "masculine");
      return mark === "er" ? said.replace(/o$/, "") : said;
    },
    time: ({ hour, minute = "0" }) =>
      numbers.cardinal(Number(hour), "feminine") +
      (Number(minute) === 0 ? "" : ` y ${numbers.cardinal(Number(minute))}`),
  }),
};
