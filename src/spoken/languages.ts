/**
 * The languages other than English that are written out. What is not certain of a language is not in its data.
 *
 * @module
 */
import type { Language } from "./language.ts";
import { DUTCH, GERMAN, SWEDISH } from "./languages/germanic.ts";
import { ARABIC, HINDI, KOREAN, TURKISH, VIETNAMESE } from "./languages/others.ts";
import { FRENCH, ITALIAN, PORTUGUESE, SPANISH } from "./languages/romance.ts";
import { POLISH, RUSSIAN, UKRAINIAN } from "./languages/slavic.ts";

/** By language code of two letters. */
export const LANGUAGES: Readonly<Record<string, Language>> = {
  ar: ARABIC,
  de: GERMAN,
  es: SPANISH,
  fr: FRENCH,
  hi: HINDI,
  it: ITALIAN,
  ko: KOREAN,
  nl: DUTCH,
  pl: POLISH,
  pt: PORTUGUESE,
  ru: RUSSIAN,
  sv: SWEDISH,
  tr: TURKISH,
  uk: UKRAINIAN,
  vi: VIETNAMESE,
};
