/**
 * Recognizes dates, in figures and with the name of a month.
 *
 * @module
 */
import { matchAny } from "./tables.ts";
import type { CalendarDate, Rule } from "./token.ts";

/** How a language writes dates. */
export interface DateSyntax {
  /** Names of months in lower case, without a full stop, by their number from 1. */
  readonly months: ReadonlyMap<string, number>;
  /** Between day, month and year: `de`. */
  readonly link?: string;
  /** What follows the figures of a day, as a pattern: `st`, `er`, a full stop. */
  readonly dayMark: string;
  /** The order of figures with strokes between them. */
  readonly order: "day-month" | "month-day";
}

/** The names of the months, long and short, as `Intl` has them. */
export function readMonths(locale: string): Map<string, number> {
  const months = new Map<string, number>();
  for (const style of ["long", "short"] as const) {
    // The form beside a day, and the one that stands alone.
    for (const day of ["numeric", undefined] as const) {
      const format = new Intl.DateTimeFormat(locale, {
        day,
        month: style,
        calendar: "gregory",
        numberingSystem: "latn",
        timeZone: "UTC",
      });
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

/** Whether the calendar has such a day; without a year, in a leap year. */
export function isDate(day: number, month: number, year = 2000): boolean {
  const date = new Date(Date.UTC(year < 100 ? 2000 : year, month - 1, day));
  return month >= 1 && month <= 12 && day >= 1 && date.getUTCDate() === day;
}

/** A year of two figures is one from 1950 to 2049. */
function readYear(figures: string | undefined): number | undefined {
  if (figures === undefined) return undefined;
  const year = Number(figures.replace(/^'/, ""));
  return figures.length > 3 ? year : year < 50 ? 2000 + year : 1900 + year;
}

const START = String.raw`(?<![\p{L}\d./:-]|\d,)`;
const END = String.raw`(?![\p{L}\d]|[-/:]\d)`;

/** Dates in figures: ISO 8601, and in the order of the language. */
export function numericDateRules({ order }: DateSyntax): Rule[] {
  const read = (day: string, month: string, year?: string): CalendarDate | undefined => {
    const date = { day: Number(day), month: Number(month), year: readYear(year) };
    return isDate(date.day, date.month, date.year) ? { kind: "date", ...date } : undefined;
  };
  return [
    {
      pattern: new RegExp(String.raw`${START}(\d{4})([-/])(\d\d)\2(\d\d)${END}(?!T\d)`, "uy"),
      read: ([year, , month, day]) => read(day!, month!, year),
    },
    {
      pattern: new RegExp(
        String.raw`${START}(\d{1,2})([/.-])(\d{1,2})\2((?:1[5-9]|20)\d\d|(?<=\/)\d\d)${END}`,
        "uy",
      ),
      read: ([first, separator, second, year]) => {
        const isMonthFirst = order === "month-day" && separator !== ".";
        return isMonthFirst
          ? read(second!, first!, year) ?? read(first!, second!, year)
          : read(first!, second!, year);
      },
    },
  ];
}

/** A day before the name of its month, perhaps with a year: `3. Mai 2024`, `15 de marzo de 2024`. */
export function dayMonthRule({ months, link, dayMark }: DateSyntax): Rule[] {
  if (months.size === 0) return [];
  const between = link === undefined ? String.raw`\s` : String.raw`\s(?:${link}\s)?`;
  return [{
    pattern: new RegExp(
      String
        .raw`${START}(\d{1,2})(?:${dayMark})?(?:\s?[-\u2013]\s?(\d{1,2})(?:${dayMark})?)?${between}` +
        String.raw`(${
          matchAny(months.keys())
        })\b\.?(?:,?${between}('?\d\d|\d{4})(?![\p{L}\d:]|[.,]\d))?`,
      "iuy",
    ),
    read: ([day, lastDay, name, year]) => {
      const month = months.get(name!.toLowerCase())!;
      if (!isDate(Number(lastDay ?? day), month)) return undefined;
      return {
        kind: "date",
        day: Number(day),
        lastDay: lastDay === undefined ? undefined : Number(lastDay),
        month,
        year: readYear(year),
        isDayFirst: true,
      };
    },
  }];
}
