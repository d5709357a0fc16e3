/**
 * Text normalization for speech: writes numbers, amounts, dates, times, abbreviations and symbols as words.
 *
 * @module
 */
import { cleanText } from "./clean_text.ts";
import { dayMonthRule } from "./date_rules.ts";
import { createNormalizer, type Language } from "./language.ts";
import data from "./languages/intl.json" with { type: "json" };
import type { NumberModule, NumberStyle } from "./numbers.ts";

/** Turns a text into the words to speak. */
export type Normalizer = (text: string) => string;

/** Languages with data of their own. Imported on demand: each compiles a hundred patterns. */
const LANGUAGES: Readonly<Record<string, () => Promise<Language>>> = {
  de: async () => (await import("./languages/german.ts")).GERMAN,
  en: async () => (await import("./languages/english.ts")).ENGLISH,
  es: async () => (await import("./languages/romance.ts")).SPANISH,
  fr: async () => (await import("./languages/romance.ts")).FRENCH,
  it: async () => (await import("./languages/romance.ts")).ITALIAN,
  pt: async () => (await import("./languages/romance.ts")).PORTUGUESE,
};

/** Languages that only have the words of `Intl` and n2words: numbers, dates, times, money and units. */
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

/** Words that neither `Intl` nor n2words has, and symbols of units that are also words. */
const WORDS: Readonly<
  Record<string, Partial<NumberStyle> & { readonly units?: readonly string[] }>
> = data.words;

/** Corrections of n2words' output, and words for symbols that `Intl` keeps. */
const CORRECTIONS: Readonly<Record<string, Partial<NumberStyle>>> = {
  ar: { elisions: [[/\s?[%\u066a]\u061c?/, " بالمائة"]] },
  ko: { elisions: [[/\s?%/, " 퍼센트"]] },
  nl: { corrections: [[/\béén\b/g, "een"]] },
  sv: { corrections: [[/(?<=\p{L})-(?=\p{L})/gu, ""], [/ och /g, " "]] },
  // The module mixes Latin letters into the words.
  uk: { corrections: [[/i/g, "\u0456"]] },
  vi: {
    corrections: [[/nghìn lẻ (?=\S+ mươi|mười)/g, "nghìn không trăm "]],
    elisions: [[/\s?%/, " phần trăm"]],
  },
};

const SCHEME = /\bhttps?:\/\/(?:www\.)?/gi;
/** Normalizers by language; collecting names of units takes a while. */
const normalizers = new Map<string, Promise<Normalizer>>();

/**
 * Loads the normalizer of a language. If its number words are unknown, it only removes markup.
 *
 * @param language a BCP 47 tag without a region.
 */
export function loadNormalizer(language: string): Promise<Normalizer> {
  return normalizers.getOrInsertComputed(language, async () => {
    const known = await LANGUAGES[language]?.() ?? createIntlLanguage(language);
    const say = known && await createNormalizer(known);
    return (text) => say?.(cleanText(text)) ?? cleanText(text).replaceAll(SCHEME, "");
  });
}

/** The language with the words of `Intl` and n2words; `undefined` if n2words does not know it. */
function createIntlLanguage(locale: string): Language | undefined {
  const load = MODULES[locale];
  const { units = [], ...style } = WORDS[locale] ?? {};
  return load && {
    load,
    data: { ...data.tables, locale, style: { ...data.style, ...style }, unitWords: units },
    symbols: data.symbols,
    inflections: CORRECTIONS[locale] ?? {},
    rules: [dayMonthRule(locale, String.raw`\.`)],
  };
}
