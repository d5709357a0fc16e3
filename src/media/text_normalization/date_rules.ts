/**
 * Recognizes dates and times of day.
 *
 * @module
 */
import { matchAny } from "./numbers.ts";
import { type Fields, type Rule, rule } from "./token.ts";

/** How a language writes dates. */
export interface DateSyntax {
  /** Between day, month and year, as a pattern: `de`. */
  readonly link?: string;
  /** What follows the figures of a day, as a pattern: `er`, a full stop. Without it, a rule of the language reads days. */
  readonly dayMark?: string;
  readonly isMonthFirst?: boolean;
  /** Between two days: "du trois au cinq". */
  readonly to?: string;
}

/** Formats dates of the Gregorian calendar in UTC, with ASCII digits. */
export function createDateFormat(
  locale: string,
  options: Intl.DateTimeFormatOptions,
): Intl.DateTimeFormat {
  const common = { calendar: "gregory", numberingSystem: "latn", timeZone: "UTC" };
  return new Intl.DateTimeFormat(locale, { ...common, ...options });
}

/** The months of each language: names in lower case, without a full stop, by their number from 1. */
const months = new Map<string, ReadonlyMap<string, number>>();

/** The names of the months, long and short, as `Intl` has them. */
export function readMonths(locale: string): ReadonlyMap<string, number> {
  return months.getOrInsertComputed(locale, collectMonths);
}

/** The number of a month from its name or its figures. */
export function readMonth(written: string, locale: string): number {
  const name = written.toLowerCase().replace(/\.$/, "");
  const names = readMonths(locale);
  return names.get(name) ?? names.get(name.slice(0, 3)) ?? Number(name);
}

function collectMonths(locale: string): Map<string, number> {
  const months = new Map<string, number>();
  for (const name of ["long", "short"] as const) {
    // The form beside a day, and the one that stands alone.
    for (const day of ["numeric", undefined] as const) {
      const format = createDateFormat(locale, { day, month: name });
      for (let month = 1; month <= 12; month++) {
        const parts = format.formatToParts(Date.UTC(2000, month - 1));
        const name = parts.find(({ type }) => type === "month")!.value.toLowerCase();
        const plain = name.replace(/\.$/, "");
        if (/^\p{L}{3,}/u.test(plain) && !months.has(plain)) months.set(plain, month);
      }
    }
  }
  return months;
}

/** A year of two figures is one from 1950 to 2049. */
export function readYear(figures: string): number {
  const year = Number(figures.replace(/^'/, ""));
  return figures.length > 3 ? year : year < 50 ? 2000 + year : 1900 + year;
}

/** Whether the calendar has such a day; without a year, in a leap year. */
export function isDate({ day, lastDay, month, year }: Fields): boolean {
  const fullYear = year === undefined ? 2000 : readYear(year);
  const date = new Date(Date.UTC(fullYear, Number(month) - 1, Number(lastDay ?? day)));
  return Number(day) >= 1 && date.getUTCDate() === Number(lastDay ?? day) &&
    date.getUTCMonth() === Number(month) - 1;
}

const START = String.raw`(?<![\p{L}\d./:-]|\d,)`;
const END = String.raw`(?![\p{L}\d]|[-/:]\d)`;
const YEAR = String.raw`(?<year>(?:1[5-9]|20)\d\d|(?<=\/)\d\d)`;

const date = rule("date", {}, isDate);
const MONTH_FIRST =
  date`${START}(?<month>\d{1,2})(?<mark>[\/-])(?<day>\d{1,2})\k<mark>${YEAR}${END}`;

/** Dates in figures: ISO 8601, then in the order of the language. */
export function numericDateRules(isMonthFirst: boolean): Rule[] {
  return [
    date`${START}(?<year>\d{4})(?<mark>[-\/])(?<month>\d\d)\k<mark>(?<day>\d\d)(?:${END}|(?=T\d))`,
    ...(isMonthFirst ? [MONTH_FIRST] : []),
    date`${START}(?<day>\d{1,2})(?<mark>[\/.-])(?<month>\d{1,2})\k<mark>${YEAR}${END}`,
  ];
}

/** A day before the name of its month, perhaps with a year: `3. Mai 2024`, `15 de marzo de 2024`. */
export function dayMonthRule(
  months: ReadonlyMap<string, number>,
  { link, dayMark }: DateSyntax,
): Rule {
  const between = link === undefined ? String.raw`\s` : String.raw`\s(?:${link}\s)?`;
  const day = (name: string) => String.raw`(?<${name}>\d{1,2})(?:${dayMark})?`;
  const days = String.raw`${day("day")}(?:\s?[-\u2013]\s?${day("lastDay")})?`;
  const month = `(?<month>${matchAny([...months.keys()])})`;
  const year = String.raw`(?:,?${between}(?<year>'?\d\d|\d{4})(?![\p{L}\d:]|[.,]\d))?`;
  const isDay = ({ month, ...fields }: Fields) =>
    isDate({ ...fields, month: String(months.get(month!.toLowerCase())) });
  return rule("date", {}, isDay)`(?i:${START}${days}${between}${month}\b\.?${year})`;
}

/** How a language writes times of day. */
export interface TimeSyntax {
  /** Words after a time that are part of it, as a pattern: `Uhr`. */
  readonly suffix?: string;
  /** Whether the suffix makes a time of a number alone: `8 Uhr`. */
  readonly suffixTells?: boolean;
  /** Words before which a number with a full stop is a time, as a pattern: `alle 14.30`. */
  readonly prefix?: string;
  /** A letter between hours and minutes: `14h30`. */
  readonly letter?: string;
}

const HOUR = String.raw`(?<![\p{L}\d:.,/$\u20ac\u00a3-]|\d[-\u2013])(?<hour>[01]?\d|2[0-4])`;
/** The same, also as the end of a range, and behind a date. */
const ANY_HOUR = String
  .raw`(?:(?<=-\d\dT)|(?<![\p{L}:.,/$\u20ac\u00a3]|\d))(?<hour>[01]?\d|2[0-4])`;
const MINUTE = String.raw`(?<minute>[0-5]\d)`;

/** Times with 24 hours. */
export function clockRules({ suffix = "(?!)", suffixTells, prefix, letter }: TimeSyntax): Rule[] {
  const short = String.raw`${ANY_HOUR}(?:[.:]${MINUTE})?`;
  const range = String.raw`(?=\s?[-\u2013]\s?\d{1,2}(?:[.:]\d\d)?\s?${suffix})`;
  const time = rule("time");
  const end = String.raw`(?![:\d]|[.,]\d)(?:\s?${suffix}|(?<zone>Z)\b)?`;
  return [
    time`${ANY_HOUR}:${MINUTE}(?::(?<second>[0-5]\d))?${end}`,
    ...(suffixTells ? [time`${short}${range}`, time`${short}\s?${suffix}`] : []),
    ...(letter ? [time`${HOUR}\s?${letter}\s?${MINUTE}(?!\s?min|[\p{L}\d])`] : []),
    ...(prefix ? [time`(?<=(?<!\p{L})(?:${prefix})\s)${HOUR}\.${MINUTE}(?!\d|[.,]\d)`] : []),
  ];
}
