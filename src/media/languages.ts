/**
 * The languages a request may name.
 *
 * @module
 */
type Table = Readonly<Record<string, string>>;

/** Names by code: the languages of the API's specification. */
export const LANGUAGES: Table = {
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

/** Names by code: all languages; Whisper knows more than the API names. */
export const ALL_LANGUAGES: Table = {
  ...LANGUAGES,
  af: "afrikaans",
  am: "amharic",
  as: "assamese",
  az: "azerbaijani",
  ba: "bashkir",
  be: "belarusian",
  bg: "bulgarian",
  bn: "bengali",
  bo: "tibetan",
  br: "breton",
  bs: "bosnian",
  ca: "catalan",
  cy: "welsh",
  et: "estonian",
  eu: "basque",
  fo: "faroese",
  gl: "galician",
  gu: "gujarati",
  ha: "hausa",
  haw: "hawaiian",
  he: "hebrew",
  hr: "croatian",
  ht: "haitian creole",
  hy: "armenian",
  is: "icelandic",
  jv: "javanese",
  ka: "georgian",
  kk: "kazakh",
  km: "khmer",
  kn: "kannada",
  la: "latin",
  lb: "luxembourgish",
  ln: "lingala",
  lo: "lao",
  lt: "lithuanian",
  lv: "latvian",
  mg: "malagasy",
  mi: "maori",
  ml: "malayalam",
  mn: "mongolian",
  mr: "marathi",
  mt: "maltese",
  my: "myanmar",
  ne: "nepali",
  nn: "nynorsk",
  no: "norwegian",
  oc: "occitan",
  pa: "punjabi",
  ps: "pashto",
  sa: "sanskrit",
  sd: "sindhi",
  si: "sinhala",
  sk: "slovak",
  sl: "slovenian",
  sn: "shona",
  so: "somali",
  sq: "albanian",
  sr: "serbian",
  su: "sundanese",
  sw: "swahili",
  ta: "tamil",
  te: "telugu",
  tg: "tajik",
  tk: "turkmen",
  tt: "tatar",
  uk: "ukrainian",
  ur: "urdu",
  uz: "uzbek",
  yi: "yiddish",
  yo: "yoruba",
};

/** Codes that are read as another code. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ["cmn", "zh"],
  ["iw", "he"],
  ["jw", "jv"],
  ["nb", "no"],
  ["tl", "fil"],
]);

/** Codes by names that neither Whisper nor the system's list of languages has. */
const OTHER_NAMES: readonly (readonly [name: string, code: string])[] = [
  ["castilian", "es"],
  ["flemish", "nl"],
  ["mandarin", "zh"],
  ["moldovan", "ro"],
  ["tagalog", "fil"],
  ["valencian", "ca"],
];

/** Codes by the names of languages, in English and in the language itself. */
let codesByName: ReadonlyMap<string, string> | undefined;

/**
 * The code of a language from a common spelling: `EN`, `en-US`, `en_US`, `eng`, `English`, `Deutsch`.
 *
 * @returns `undefined` if there is no such language.
 */
export function readLanguage(spelling: string): string | undefined {
  const text = spelling.trim().toLowerCase();
  codesByName ??= nameLanguages();
  const named = codesByName.get(text);
  if (named !== undefined) return named;
  const [primary = "", second] = text.split(/[-_]/);
  // Cantonese is also written as a variety of Chinese: `zh-yue`.
  const code = primary === "zh" && second === "yue" ? second : toShortCode(primary);
  const own = SYNONYMS.get(code) ?? code;
  return Object.hasOwn(ALL_LANGUAGES, own) ? own : undefined;
}

function nameLanguages(): ReadonlyMap<string, string> {
  const shownIn = (language: string, code: string) =>
    new Intl.DisplayNames([language], { type: "language" }).of(code)!.toLowerCase();
  const codes = Object.entries(ALL_LANGUAGES).flatMap(([code, name]) =>
    [name, shownIn("en", code), shownIn(code, code)].map((each) => [each, code] as const)
  );
  return new Map([...OTHER_NAMES, ...codes]);
}

/** The two-letter code for a three-letter code, if there is one. */
function toShortCode(code: string): string {
  try {
    return Intl.getCanonicalLocales(code)[0] ?? code;
  } catch {
    return code;
  }
}

/** Whether the value asks for the language to be detected. */
export function detectsLanguage(spelling: string): boolean {
  return /^\s*(auto|autodetect|auto-detect|automatic|detect|none|null|undefined|unknown)?\s*$/i
    .test(spelling);
}
