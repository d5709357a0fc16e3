/**
 * The languages a request may name.
 *
 * @module
 */

/** Name by code. */
export const LANGUAGES: Readonly<Record<string, string>> = {
  zh: "chinese",
  en: "english",
  yue: "cantonese",
  ar: "arabic",
  de: "german",
  fr: "french",
  es: "spanish",
  pt: "portuguese",
  id: "indonesian",
  it: "italian",
  ko: "korean",
  ru: "russian",
  th: "thai",
  vi: "vietnamese",
  ja: "japanese",
  tr: "turkish",
  hi: "hindi",
  ms: "malay",
  nl: "dutch",
  sv: "swedish",
  da: "danish",
  fi: "finnish",
  pl: "polish",
  cs: "czech",
  fil: "filipino",
  fa: "persian",
  el: "greek",
  ro: "romanian",
  hu: "hungarian",
  mk: "macedonian",
};
