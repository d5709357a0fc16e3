/**
 * French.
 *
 * @module
 */
import { readMonths } from "../date_rules.ts";
import type { Language } from "../language.ts";
import { rule } from "../token.ts";
import data from "./french.json" with { type: "json" };

export const FRENCH: Language = {
  locale: "fr",
  load: () => import("n2words/fr-FR"),
  data,
  numbers: {
    decimalSign: ",",
    minus: "moins",
    point: "virgule",
    agreement: { feminine: [[/\bun$/, "une"]] },
  },
  amounts: {
    to: "à",
    andCents: " ",
    link: (noun) => /^[aeiouhéœ]/i.test(noun) ? ` d'${noun}` : ` de ${noun}`,
  },
  measures: { codes: ["A", "B", "J", "V", "t", "o"] },
  dates: { months: readMonths("fr"), dayMark: "er", to: "au" },
  times: { suffix: String.raw`h(?:eures?)?(?!\p{L})`, letter: "h" },
  versus: "à",
  feminine: /^ (?:tasse|heure|livre|douzaine|journée|cuillère|bouteille|portion|page)/,
  ordinals: [
    rule(
      "ordinal",
    )`(?<![\p{L}\d.,])(?<number>1(?=e?r|è)|\d+)(?<mark>er|re|ère|e|ème|eme|nde?)s?(?![\p{L}\d])`,
    rule(
      "roman",
    )`(?<!\p{L})(?<numeral>(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3}))(?<mark>e|er|ème)(?= siècle)`,
  ],
  sayDay: (day, _, { numbers }) => day === "1" ? numbers.ordinal(1) : numbers.cardinal(day),
  verbalizer: ({ numbers, amounts }) => ({
    ordinal: ({ number, mark }) => ORDINALS[mark!] ?? numbers.ordinal(number!),
    time: ({ hour, minute = "0" }) => {
      const hours = amounts.measure({ number: String(Number(hour)), unit: "h" });
      return Number(minute) === 0 ? hours : `${hours} ${numbers.cardinal(Number(minute))}`;
    },
    // In pairs.
    telephone: ({ text }) =>
      (text!.startsWith("+") ? "plus " : "") +
      text!.match(/\d+/g)!.map((group) =>
        /^[1-9]\d$/.test(group) ? numbers.cardinal(group) : numbers.digits(group)
      ).join(" "),
  }),
};

/** Ordinals that are not made of the number and an ending. */
const ORDINALS: Readonly<Record<string, string>> = {
  er: "premier",
  re: "première",
  ère: "première",
  nd: "second",
  nde: "seconde",
};
