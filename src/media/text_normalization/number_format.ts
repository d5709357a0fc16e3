/**
 * How languages write numbers.
 *
 * @module
 */
import type { Amount, Scale } from "./token.ts";

/** The sign before decimals. */
export type DecimalSign = "." | ",";

/**
 * Numbers with groups and decimals. Groups of the Indian kind (1,00,000) are read where the decimal sign is a point,
 * blanks between groups where what follows is no further number.
 */
const PATTERNS: Readonly<Record<DecimalSign, string>> = {
  ".": String
    .raw`(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)|\d{1,3}(?:[ _]\d{3})*[ _]000(?!\d)|\d+(?:_\d{3})*)` +
    String.raw`(?:\.\d+)?|\.\d+`,
  ",": String
    .raw`(?:\d{1,3}(?:\.\d{3})+(?!\d|\.\d)|[1-9]\d{0,2}(?: \d{3})+(?!\d)|\d+)(?:,\d+)?|\d+\.\d+`,
};

/** A number of the other kind, which only an amount of money beside it tells: `€1.234,56`, `12,50 €`. */
const FOREIGN = String.raw`\d{1,3}(?:\.\d{3})+(?:,\d\d)?(?![\d.,]*\d)|\d+,\d\d(?![\d.,]*\d)`;

/** A pattern without groups. */
export function numberPattern(sign: DecimalSign): string {
  return `(?:${PATTERNS[sign]})`;
}

/** A pattern without groups, for amounts of money. */
export function moneyPattern(sign: DecimalSign): string {
  return sign === "." ? `(?:${FOREIGN}|${PATTERNS[sign]})` : numberPattern(sign);
}

/** ASCII digits, perhaps with a point, of a number as it is written. */
export function readNumber(written: string, sign: DecimalSign): string {
  const plain = written.replaceAll(/[ _]/g, "");
  if (sign === ".") {
    const isForeign = /^\d{1,3}(?:\.\d{3})+(?:,\d\d)?$|^\d+,\d\d$/.test(plain) &&
      !/^\d{1,3}\.\d{3}$/.test(plain);
    const digits = isForeign
      ? plain.replaceAll(".", "").replace(",", ".")
      : plain.replaceAll(",", "");
    return digits.startsWith(".") ? `0${digits}` : digits;
  }
  const isGrouped = /^\d{1,3}(?:\.\d{3})+(?:,|$)/.test(plain);
  return (isGrouped ? plain.replaceAll(".", "") : plain).replace(",", ".");
}

/** As `readNumber`, where a currency tells that a point is between groups: `10.000 €`. */
export function readMoney(written: string, sign: DecimalSign): string {
  return sign === "." && /^\d{1,3}\.\d{3}$/.test(written)
    ? written.replace(".", "")
    : readNumber(written, sign);
}

/** The number of an amount, with a sign before it. */
export function readAmount(
  digits: string,
  { minus, scale }: { readonly minus?: string | undefined; readonly scale?: Scale | undefined } =
    {},
): Amount {
  return { isNegative: (minus ?? "") !== "", digits, scale };
}
