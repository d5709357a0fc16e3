/**
 * Languages of which only the words of `Intl` and n2words are known: numbers, dates, times, money and units.
 *
 * @module
 */
import { readMonths } from "./date_rules.ts";
import { IntlLexicon } from "./intl_lexicon.ts";
import type { Language } from "./language.ts";
import type { DecimalSign } from "./number_format.ts";
import type { NumberModule, NumberWords } from "./number_words.ts";
import type { Replacements } from "./tables.ts";

/** The modules of n2words by language. */
const MODULES: Readonly<Record<string, () => Promise<NumberModule>>> = {
  ar: () => import("n2words/ar-SA"),
  cs: () => import("n2words/cs-CZ"),
  da: () => import("n2words/da-DK"),
  el: () => import("n2words/el-GR"),
  fi: () => import("n2words/fi-FI"),
  he: () => import("n2words/he-IL"),
  hi: () => import("n2words/hi-IN"),
  hu: () => import("n2words/hu-HU"),
  id: () => import("n2words/id-ID"),
  ko: () => import("n2words/ko-KR"),
  nb: () => import("n2words/nb-NO"),
  nl: () => import("n2words/nl-NL"),
  pl: () => import("n2words/pl-PL"),
  ro: () => import("n2words/ro-RO"),
  ru: () => import("n2words/ru-RU"),
  sv: () => import("n2words/sv-SE"),
  tr: () => import("n2words/tr-TR"),
  uk: () => import("n2words/uk-UA"),
  vi: () => import("n2words/vi-VN"),
};

/** Words that neither `Intl` nor n2words has, and corrections of theirs. */
interface Words {
  readonly to?: string;
  readonly point?: string;
  readonly percent?: string;
  /** Symbols of units that are words too. */
  readonly units?: readonly string[];
  readonly corrections?: Replacements;
}

const WORDS: Readonly<Record<string, Words>> = {
  ar: { percent: "\u0628\u0627\u0644\u0645\u0627\u0626\u0629" },
  cs: { to: "a\u017e" },
  da: { to: "til" },
  hi: { to: "\u0938\u0947", point: "\u0926\u0936\u092e\u0932\u0935" },
  ko: { to: "\uc5d0\uc11c", point: "\uc810", percent: "\ud37c\uc13c\ud2b8" },
  nb: { to: "til" },
  nl: { to: "tot", point: "komma", corrections: [[/\b\u00e9\u00e9n\b/g, "een"]] },
  ru: { units: ["\u0441"] },
  sv: {
    to: "till",
    point: "komma",
    corrections: [[/(?<=\p{L})-(?=\p{L})/gu, ""], [/ och /g, " "]],
  },
  // The module has Latin letters in them.
  uk: { corrections: [[/i/g, "\u0456"]] },
  vi: {
    to: "\u0111\u1ebfn",
    percent: "ph\u1ea7n tr\u0103m",
    corrections: [[
      /ngh\u00ecn l\u1ebb (?=\S+ m\u01b0\u01a1i|m\u01b0\u1eddi)/g,
      "ngh\u00ecn kh\u00f4ng tr\u0103m ",
    ]],
  },
};

const sayNumber = (numbers: NumberWords, number: number) => numbers.cardinal(String(number));

/** What is known of a language; `undefined` where n2words does not have it. */
export async function loadIntlLanguage(locale: string): Promise<Language | undefined> {
  const load = MODULES[locale];
  if (load === undefined) return undefined;
  const module = await load();
  const minus = module.toCardinal("-1").split(" ")[0]!;
  const isPoint = new Intl.NumberFormat(locale).format(0.5).includes(".");
  const decimalSign: DecimalSign = isPoint ? "." : ",";
  const { to, point, percent, units = [], corrections } = WORDS[locale] ?? {};
  return {
    load: () => Promise.resolve(module),
    numbers: { minus, point, corrections },
    createLexicon: (numbers) => new IntlLexicon(locale, { numbers, to: to ?? "-", percent }),
    amounts: { decimalSign, scales: {}, words: units },
    to,
    dates: { months: readMonths(locale), dayMark: String.raw`\.`, order: "day-month" },
    times: {},
    abbreviations: { stopped: "", counted: "", plain: "" },
    signs: "",
    ordinals: [],
    sayDate: ({ day, month, year }, _, { numbers }) => {
      const format = new Intl.DateTimeFormat(locale, {
        day: "numeric",
        month: "long",
        year: year === undefined ? undefined : "numeric",
        calendar: "gregory",
        numberingSystem: "latn",
        timeZone: "UTC",
      });
      const date = Date.UTC(year ?? 2000, month - 1, day);
      return format.format(date).replaceAll(
        /\d+\.?/g,
        (figures) => sayNumber(numbers, parseInt(figures)),
      );
    },
    sayTime: ({ hour, minute }, _, { numbers }) => {
      if (minute === 0) return sayNumber(numbers, hour);
      const nought = minute < 10 ? `${sayNumber(numbers, 0)} ` : "";
      return `${sayNumber(numbers, hour)} ${nought}${sayNumber(numbers, minute)}`;
    },
  };
}
