/**
 * Text normalization for speech: numbers, amounts, dates, times, abbreviations and signs in words.
 *
 * @module
 */
import { cleanText, dropSchemes } from "./clean_text.ts";
import { loadIntlLanguage } from "./intl_language.ts";
import { createNormalizer, type Language } from "./language.ts";

/** Turns a stretch of a text into what is spoken. */
export type Normalizer = (text: string) => string;

/** Languages with data of their own, loaded when they are asked for. */
const LANGUAGES: Readonly<Record<string, () => Promise<Language>>> = {
  de: async () => (await import("./languages/german.ts")).GERMAN,
  en: async () => (await import("./languages/english.ts")).ENGLISH,
  es: async () => (await import("./languages/romance.ts")).SPANISH,
  fr: async () => (await import("./languages/romance.ts")).FRENCH,
  it: async () => (await import("./languages/romance.ts")).ITALIAN,
  pt: async () => (await import("./languages/romance.ts")).PORTUGUESE,
};

/** By language: names of units take a while to collect. */
const normalizers = new Map<string, Promise<Normalizer>>();

/**
 * The normalizer of a language. Where its words for numbers are not known, it takes out markup alone.
 *
 * @param language as in BCP 47, without a region.
 */
export function loadNormalizer(language: string): Promise<Normalizer> {
  return normalizers.getOrInsertComputed(language, () => createFor(language));
}

async function createFor(language: string): Promise<Normalizer> {
  const known = await (LANGUAGES[language]?.() ?? loadIntlLanguage(language));
  const say = known === undefined ? dropSchemes : await createNormalizer(known);
  return (text) => say(cleanText(text));
}
