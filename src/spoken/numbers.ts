/**
 * Numbers as words.
 *
 * @module
 */
import type { Language } from "./language.ts";

/** Writes a number out: digits, perhaps with a point and a sign. */
type ToWords = (number: string) => string;

const NUMBER = /(?:(?<=^|[\s(])[-\u2212](?=\d))?\d+(?:[.,]\d+)*/g;
/** As languages with a decimal comma part them, also where the blank is a plain one. */
const BLANK_GROUPS = /(?<![\d.,])[1-9]\d{0,2}(?: \d{3})+(?!\d)/g;

/**
 * Writes out the numbers of a text, groups of three digits as one number.
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
    return pieces.map(toWords).join(" ");
  });
}

/** A number as a language writes it: groups of three digits, and decimals. */
export function numberPattern({ decimalSign }: Language): string {
  return decimalSign === ","
    ? String.raw`(?:\d{1,3}(?:[. ]\d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?)(?![.,]?\d)`
    : String.raw`(?:\d{1,3}(?:,\d\d)*,\d{3}(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d+)?)(?![.,]?\d)`;
}

/** Digits with a point, of a number as it is written. */
export function readNumber(written: string, { decimalSign }: Language): string {
  if (decimalSign === ".") return written.replaceAll(",", "");
  const isGrouped = /^\d{1,3}(?:[. ]\d{3})+(?:,|$)/.test(written);
  return (isGrouped ? written.replaceAll(/[. ]/g, "") : written).replace(",", ".");
}
