/**
 * Languages of which only the words of `Intl` and n2words are known: numbers, dates, times, money and units.
 *
 * @module
 */
import type { Language } from "./language.ts";
import data from "./languages/intl.json" with { type: "json" };
import type { NumberModule, Replacements } from "./numbers.ts";

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

/** Words that neither `Intl` nor n2words has. */
interface Words {
  readonly to?: string;
  readonly point?: string;
  readonly percent?: string;
  /** Symbols of units that are words too. */
  readonly units?: readonly string[];
}

const WORDS: Readonly<Record<string, Words>> = data.words;

/** Corrections of the words of n2words. */
const CORRECTIONS: Readonly<Record<string, Replacements>> = {
  nl: [[/\béén\b/g, "een"]],
  sv: [[/(?<=\p{L})-(?=\p{L})/gu, ""], [/ och /g, " "]],
  // The module has Latin letters in them.
  uk: [[/i/g, "\u0456"]],
  vi: [[/nghìn lẻ (?=\S+ mươi|mười)/g, "nghìn không trăm "]],
};

/** What is known of a language; `undefined` where n2words does not have it. */
export async function loadIntlLanguage(locale: string): Promise<Language | undefined> {
  const module = await MODULES[locale]?.();
  if (module === undefined) return undefined;
  const { to, point, percent, units = [] } = WORDS[locale] ?? {};
  const minus = module.toCardinal("-1").split(" ")[0]!;
  return {
    load: () => Promise.resolve(module),
    data: { ...data.tables, locale, style: { ...data.style, minus, to, point }, unitWords: units },
    symbols: { ...data.symbols, percent },
    inflections: { corrections: CORRECTIONS[locale] },
    dates: { dayMark: String.raw`\.` },
  };
}
