/**
 * Text normalization for speech: writes numbers, amounts, dates, times, abbreviations and symbols as words.
 *
 * @module
 */
import { makeDayMonthRule } from "./common_rules.ts";
import { createNormalizer, type Language } from "./language.ts";
import type { IntlSymbols } from "./nouns.ts";
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
> = {
  cs: { to: "až" },
  da: { to: "til" },
  hi: { to: "से", point: "दशमलव" },
  ko: { to: "에서", point: "점" },
  nb: { to: "til" },
  nl: { to: "tot", point: "komma" },
  ru: { units: ["с"] },
  sv: { to: "till", point: "komma" },
  vi: { to: "đến" },
};

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

/** Symbols of the units and currencies that `Intl` can name. */
const SYMBOLS: IntlSymbols = {
  units: {
    "kilometer-per-hour": "km/h",
    "meter-per-second": "m/s",
    "mile-per-hour": "mi/h",
    "kilometer-per-second": "km/s",
    "kilobyte-per-second": "kB/s KB/s",
    "megabyte-per-second": "MB/s",
    "gigabyte-per-second": "GB/s",
    "megabit-per-second": "Mbit/s",
    "gigabit-per-second": "Gbit/s",
    "liter-per-minute": "l/min L/min",
    "liter-per-second": "l/s L/s",
    "liter-per-hour": "l/h L/h",
    "gram-per-liter": "g/l g/L",
    "milliliter-per-hour": "ml/h mL/h",
    "kilogram-per-hour": "kg/h",
    "meter-per-minute": "m/min",
    percent: "% ٪",
    celsius: "°C ℃",
    fahrenheit: "°F ℉",
    degree: "°",
    millimeter: "mm",
    centimeter: "cm",
    meter: "m",
    kilometer: "km",
    mile: "mi",
    foot: "ft",
    gram: "g",
    kilogram: "kg",
    pound: "lb lbs",
    ounce: "oz",
    milliliter: "ml mL",
    liter: "l L",
    hectare: "ha",
    kilobyte: "kB KB",
    megabyte: "MB",
    gigabyte: "GB",
    terabyte: "TB",
    megabit: "Mbit",
    gigabit: "Gbit",
    microsecond: "µs μs",
    millisecond: "ms",
    second: "s",
    minute: "min",
    hour: "h",
  },
  currencies: {
    EUR: "EUR €",
    USD: "USD $ US$",
    CAD: "CAD",
    AUD: "AUD",
    GBP: "GBP £",
    CHF: "CHF",
    JPY: "JPY ¥",
    CNY: "CNY",
    INR: "INR ₹",
    RUB: "RUB ₽",
    UAH: "UAH ₴",
    PLN: "PLN zł",
    CZK: "CZK Kč",
    SEK: "SEK kr",
    NOK: "NOK",
    DKK: "DKK",
    HUF: "HUF",
    TRY: "TRY ₺",
    BRL: "BRL",
    KRW: "KRW ₩",
    VND: "VND ₫",
  },
};

/** Tables of a language without words of its own. */
const EMPTY_TABLES = {
  prefixes: {},
  scales: {},
  powers: {},
  per: { "*": "/ {}" },
  fractions: { and: " ", half: [], names: {} },
  abbreviations: { stopped: {}, counted: {}, plain: {} },
  signs: {},
  address: {},
  units: {},
  currencies: {},
};

const SCHEME = /\bhttps?:\/\/(?:www\.)?/gi;
/** Normalizers by language; collecting names of units takes a while. */
const normalizers = new Map<string, Promise<Normalizer>>();

/**
 * Loads the normalizer of a language. If its number words are unknown, it only removes markup, emoji and the scheme of
 * addresses.
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

/** Makes a language from the words of `Intl` and n2words; `undefined` if n2words does not know it. */
function createIntlLanguage(locale: string): Language | undefined {
  const load = MODULES[locale];
  const { units = [], ...style } = WORDS[locale] ?? {};
  return load && {
    load,
    data: { ...EMPTY_TABLES, locale, style: { andCents: " ", ...style }, unitWords: units },
    symbols: SYMBOLS,
    inflections: CORRECTIONS[locale] ?? {},
    rules: [makeDayMonthRule(locale, String.raw`\.`)],
  };
}

/** Replacements, applied in this order. */
const CLEANING_RULES: readonly (readonly [RegExp, string])[] = [
  // Narrow and non-breaking spaces between groups of digits.
  [/(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))/g, ""],
  // Invisible characters within words: joiners, soft hyphens, direction marks, variation selectors of emoji.
  [/[\p{Cf}\u{fe00}-\u{fe0f}]+/gu, ""],
  [/\p{Cc}+/gu, " "],
  [
    /(?![\u00a9\u00ae\u2122\u2190-\u21ff])[\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}\u{1f1e6}-\u{1f1ff}\u20e3]+/gu,
    " ",
  ],
  // Emoticons.
  [/(?<=^|\s)(?:[:;=]['-]?[()DPpO|\/]|[xX]D|\^\^|\^_\^)(?=\s|$)/g, " "],
  [/<!--.*?-->/g, " "],
  // Markup, but not comparisons that look like it.
  [/<\/?[a-z][a-z0-9-]*(?:\s+[\w:-]+=(?:"[^"<>]*"|'[^'<>]*'))*\s*\/?>/gi, " "],
  [/&nbsp;/g, " "],
  [/&lt;/g, "<"],
  [/&gt;/g, ">"],
  [/&quot;/g, '"'],
  [/&(?:apos|#39);/g, "'"],
  [/&amp;/g, "&"],
  [/[\u2018\u2019\u201b\u2032]/g, "'"],
  [/[\u201c\u201d\u201e\u2033]/g, '"'],
  [/\u2026/g, "..."],
  [/[\u2010\u2011]/g, "-"],
  [/\s+-{2,3}\s+|(?<=\w)--(?=\w)/g, " \u2014 "],
  // Markdown, which language models write.
  [/!?\[([^\][]{0,300})\]\([^()\s]{1,500}\)/g, "$1"],
  [/`{3,}\w*/g, " "],
  [/^\s*(?:[-*_=]\s*){3,}$/, ""],
  [/^\s*\|[-:|\s]+$/, ""],
  [/^\s*\|\s*|\s*\|\s*$/g, ""],
  [/\s+\|\s+/g, ", "],
  [/(\*{1,3}|`{1,3}|~~)(?=\S)([^*`~]{1,500}?)(?<=\S)\1/g, "$2"],
  [/^\s*(#{1,6}|[-*+\u2022](?:\s+\[[ x]\])?|>)\s+/i, ""],
  [/\s+/g, " "],
];

/** Cleans a text: one line, without emoji and markup. */
export function cleanText(text: string): string {
  let clean = text.normalize("NFC");
  for (const [pattern, replacement] of CLEANING_RULES) clean = clean.replace(pattern, replacement);
  return clean.trim();
}
