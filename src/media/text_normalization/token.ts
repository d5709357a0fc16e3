/**
 * The classes of tokens that a text has beside words, as text normalization for speech names them (Sparrowhawk, NeMo).
 *
 * @module
 */

export type Gender = "masculine" | "feminine" | "neuter";

/** Words for powers of ten beside a number: `3 million`. */
export type Scale = "hundred" | "thousand" | "million" | "billion" | "trillion";

/** A number as it is counted. */
export interface Amount {
  readonly isNegative: boolean;
  /** ASCII digits, perhaps with a point between them. */
  readonly digits: string;
  readonly scale?: Scale | undefined;
}

/** A number, whole or with decimals. */
interface Cardinal {
  readonly kind: "cardinal";
  readonly amount: Amount;
}

interface Ordinal {
  readonly kind: "ordinal";
  readonly digits: string;
  /** What marks it in the text: `th`, `ª`, a full stop. */
  readonly mark: string;
}

/** Digits that are read one by one: telephone numbers, codes. */
interface Telephone {
  readonly kind: "telephone";
  /** In groups, as they are written. */
  readonly text: string;
}

interface Year {
  readonly kind: "year";
  readonly year: number;
}

/** A day, a month of a year, or a day of a month. */
export interface CalendarDate {
  readonly kind: "date";
  readonly day?: number | undefined;
  /** For `Jan. 5-7`. */
  readonly lastDay?: number | undefined;
  /** From 1. */
  readonly month: number;
  readonly year?: number | undefined;
  /** Whether the text puts the day before the month with "the" or "of". */
  readonly isDayFirst?: boolean;
}

/** A time of day. */
export interface Time {
  readonly kind: "time";
  readonly hour: number;
  readonly minute: number;
  readonly second?: number | undefined;
  /** The half of the day. */
  readonly half?: "am" | "pm" | undefined;
}

export interface Money {
  readonly kind: "money";
  readonly amount: Amount;
  /** The end of a range. */
  readonly last?: Amount | undefined;
  /** Its sign or code as the text has it. */
  readonly currency: string;
  /** What the amount is for: a symbol of a unit, or a word. */
  readonly per?: string | undefined;
}

export interface Measure {
  readonly kind: "measure";
  readonly amount: Amount;
  /** The end of a range. */
  readonly last?: Amount | undefined;
  readonly unit: string;
  readonly power?: 2 | 3 | undefined;
  readonly per?: string | undefined;
  readonly perPower?: 2 | 3 | undefined;
  /** A hyphen joins the two: `a 5-km run`. */
  readonly isAttributive?: boolean;
}

export interface Fraction {
  readonly kind: "fraction";
  readonly whole?: number | undefined;
  readonly numerator: number;
  readonly denominator: number;
}

/** An address of mail or the web, the path of a file. */
interface Electronic {
  readonly kind: "electronic";
  readonly text: string;
}

/** Already the words that are spoken: abbreviations, Roman numerals, signs, spelled codes. */
interface Verbatim {
  readonly kind: "verbatim";
  readonly text: string;
}

export type Token =
  | Cardinal
  | Ordinal
  | Telephone
  | Year
  | CalendarDate
  | Time
  | Money
  | Measure
  | Fraction
  | Electronic
  | Verbatim;

/** What stands around a token. */
export interface Context {
  /** The characters before it. */
  readonly before: string;
  /** The characters after it. */
  readonly after: string;
}

/** Says the tokens of each class in one language. */
export type Verbalizer = {
  readonly [Kind in Token["kind"]]: (
    token: Extract<Token, { kind: Kind }>,
    context: Context,
  ) => string;
};

/** Recognizes tokens of one class. */
export interface Rule {
  /** Matched where a token may begin; its groups go to `read`. */
  readonly pattern: RegExp;
  /** The token; `undefined` where the match is something else. */
  readonly read: (
    groups: readonly (string | undefined)[],
    context: Context,
  ) => Token | undefined;
}

/** A token of words that need no verbalizer. */
export const verbatim = (text: string): Token => ({ kind: "verbatim", text });
