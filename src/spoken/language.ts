/**
 * What the rules for writing texts out need to know of a language.
 *
 * @module
 */
import type { Replacements } from "./rule.ts";

/** Of the noun that a number counts; `masculine` also where two genders have become one. */
export type Gender = "masculine" | "feminine" | "neuter";

/** n2words' functions of a language. */
export interface NumberWords {
  /** @param options of which some languages take a `gender`. */
  toCardinal(value: string, options?: object): string;
  toOrdinal(value: string, options?: object): string;
}

/** How a number is said, alone or before what it counts. */
export interface Say {
  /** @param gender of the noun after it; without one it stands alone. */
  cardinal(value: number | string, gender?: Gender): string;
  ordinal(value: number | string, gender?: Gender): string;
  /** With the unit's name, one of `Intl.NumberFormat`. */
  unit(value: number | string, unit: string): string;
}

/** A number in a text, and what stands before and after it. */
export interface MatchContext {
  readonly say: Say;
  /** The last words before it in lower case. */
  readonly before: string;
}

/** Nouns by gender, of those that are not masculine, and those before which a number stands as if alone. */
interface Genders {
  /** Identifiers of units and codes of currencies. */
  readonly feminine?: ReadonlySet<string>;
  readonly neuter?: ReadonlySet<string>;
  readonly alone?: ReadonlySet<string>;
}

/** What a unit's name becomes for an area or a volume, by plural category (`Intl.PluralRules`); `{}` is the name. */
export type Power = Readonly<{ other: string } & Partial<Record<Intl.LDMLPluralRule, string>>>;

/** Languages with the parts that are not known have no rules for these: such signs are left as they are. */
export interface Language {
  /** For the names of units, currencies and months. */
  readonly locale: string;
  readonly decimalSign: "." | ",";
  readonly load: () => Promise<NumberWords>;
  /** Short forms of words in a text. */
  readonly shortWords?: Replacements;
  /** Corrections of the words for numbers. */
  readonly corrections?: Replacements;
  /** The word for the decimal sign, where decimals are read one by one. */
  readonly point?: string;
  /** What a number becomes before a noun. */
  readonly agreement?: Partial<Record<Gender, Replacements>>;
  readonly genders?: Genders;
  /** What is said in the place of parts of Intl's names, such as signs. */
  readonly signs?: Readonly<Record<string, string>>;
  /** What a reading (`{}`) becomes per unit of time, where Intl has only a sign for it. */
  readonly rates?: Readonly<Record<string, string>>;
  /** Symbols of units that are also words: they are none beside a number. */
  readonly words?: ReadonlySet<string>;
  readonly square?: Power;
  readonly cubic?: Power;
  /** Between an amount's whole part and its hundredths: `5,50 €`. */
  readonly andCents?: string;
  /** Where a currency's noun stands in its full name; the whole name is said if absent. */
  readonly currencyNoun?: "first" | "last";
  /** Between the ends of a range, with its blanks. */
  readonly to?: string;
  readonly clock?: Clock;
  readonly dates?: Dates;
  readonly ordinals?: readonly OrdinalMark[];
}

/** Times of day. */
interface Clock {
  readonly say: (hour: number, minute: number, context: MatchContext) => string;
  /** Words after a time that are part of it, as a pattern. */
  readonly suffix?: string;
  /** The suffix tells that a number is a time: `8 Uhr`, `14.30 Uhr`. */
  readonly suffixTells?: boolean;
  /** Words after which a number with a full stop is a time, as a pattern: `kl. 14.30`. */
  readonly prefix?: string;
  /** A letter between hours and minutes: `14h30`. */
  readonly letter?: string;
}

/** Dates, in figures or with the month's name. */
interface Dates {
  readonly day: (day: number, context: MatchContext) => string;
  readonly year?: (year: number, context: MatchContext) => string;
  /** So are numbers that stand alone, from 1100 to 1999. */
  readonly hasBareYears?: boolean;
  /** Years before a noun; the first that fits. */
  readonly yearForms?: readonly YearForm[];
}

/** A year before a noun, which it agrees with. */
interface YearForm {
  /** A pattern. */
  readonly noun: string;
  /** What the text before the year ends in. */
  readonly after?: RegExp;
  /** What becomes of the ordinal. */
  readonly endings: Replacements;
  /** The noun in full. */
  readonly said: string;
}

/** Digits with a mark, the first two groups of the pattern, that are an ordinal number. */
interface OrdinalMark {
  readonly pattern: RegExp;
  readonly say: (number: string, mark: string, context: MatchContext) => string;
}

/** Of a unit or a currency. */
export function genderOf({ genders }: Language, noun: string): Gender | undefined {
  if (genders?.alone?.has(noun)) return undefined;
  if (genders?.neuter?.has(noun)) return "neuter";
  return genders?.feminine?.has(noun) ? "feminine" : "masculine";
}
