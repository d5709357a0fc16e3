/**
 * Numbers as words.
 *
 * @module
 */

/** Writes a number out: digits, perhaps with a point and a sign. */
type ToWords = (number: string) => string;

/** By language code of two or three letters. */
const LOADERS: Readonly<Record<string, () => Promise<{ toCardinal: (value: string) => string }>>> =
  {
    ar: () => import("n2words/ar-SA"),
    de: () => import("n2words/de-DE"),
    en: () => import("n2words/en-US"),
    es: () => import("n2words/es-ES"),
    fr: () => import("n2words/fr-FR"),
    hi: () => import("n2words/hi-IN"),
    it: () => import("n2words/it-IT"),
    ko: () => import("n2words/ko-KR"),
    nl: () => import("n2words/nl-NL"),
    pl: () => import("n2words/pl-PL"),
    pt: () => import("n2words/pt-PT"),
    ru: () => import("n2words/ru-RU"),
    sv: () => import("n2words/sv-SE"),
    tr: () => import("n2words/tr-TR"),
    uk: () => import("n2words/uk-UA"),
    vi: () => import("n2words/vi-VN"),
  };

/** Numbers with more digits are read digit by digit. */
const MAX_DIGITS = 36;
const NUMBER = /(?:(?<=^|[\s(])[-\u2212](?=\d))?\d+(?:[.,]\d+)*/g;
/** As languages with a decimal comma part them, also where the blank is a plain one. */
const BLANK_GROUPS = /(?<![\d.,])[1-9]\d{0,2}(?: \d{3})+(?!\d)/g;

/** How a language spells numbers; `undefined` if unknown. */
export async function loadToWords(language: string): Promise<ToWords | undefined> {
  const toCardinal = (await LOADERS[language]?.())?.toCardinal;
  return toCardinal && ((number) => toCardinal(number));
}

/**
 * Writes out the numbers of a text, groups of three digits as one number; for languages without rules of their own.
 *
 * @param options.decimalSign which of the two signs parts fractions.
 */
export function writeNumbers(
  text: string,
  { toWords, decimalSign }: { readonly toWords: ToWords; readonly decimalSign: "." | "," },
): string {
  const groupSign = decimalSign === "." ? "," : ".";
  const joined = decimalSign === "."
    ? text
    : text.replace(BLANK_GROUPS, (groups) => groups.replaceAll(" ", ""));
  return joined.replace(NUMBER, (written) => {
    const number = written.replace("\u2212", "-");
    const isGrouped = number.split(groupSign).slice(1).every((group) => /^\d{3}(\D|$)/.test(group));
    const plain = isGrouped ? number.replaceAll(groupSign, "") : number;
    const parts = plain.replaceAll(decimalSign, ".").split(".");
    const isDecimal = isGrouped && parts.length === 2;
    const pieces = isDecimal ? [parts.join(".")] : plain.split(/[.,]/);
    return pieces.map((piece) => writeOne(piece, toWords)).join(" ");
  });
}

function writeOne(number: string, toWords: ToWords): string {
  const isLong = number.length > MAX_DIGITS;
  return isLong ? [...number.replace(".", "")].map(toWords).join(" ") : toWords(number);
}
