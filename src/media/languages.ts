/**
 * The languages a request may name.
 *
 * @module
 */
import data from "./languages.json" with { type: "json" };

type Table = Readonly<Record<string, string>>;

/** Names by code: the languages of the API's specification. */
export const LANGUAGES: Table = data.ofApi;

/** Names by code: all languages; Whisper knows more than the API names. */
export const ALL_LANGUAGES: Table = { ...data.ofApi, ...data.ofWhisper };

/** Codes that mean a language with another code. */
const SAME: ReadonlyMap<string, string> = new Map(Object.entries(data.sameAs));

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
  const code = primary === "zh" && second === "yue" ? second : shortCode(primary);
  const own = SAME.get(code) ?? code;
  return Object.hasOwn(ALL_LANGUAGES, own) ? own : undefined;
}

function nameLanguages(): ReadonlyMap<string, string> {
  const shownIn = (language: string, code: string) =>
    new Intl.DisplayNames([language], { type: "language" }).of(code)!.toLowerCase();
  const codes = Object.entries(ALL_LANGUAGES).flatMap(([code, name]) =>
    [name, shownIn("en", code), shownIn(code, code)].map((each) => [each, code] as const)
  );
  // Other names are those that neither Whisper nor the system's list of languages has.
  return new Map([...Object.entries(data.otherNames), ...codes]);
}

/** The two-letter code for a three-letter code, if there is one. */
function shortCode(code: string): string {
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
