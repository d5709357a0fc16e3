/**
 * Recognizes dates and times of day.
 *
 * @module
 */
import { matchAny } from "./numbers.ts";
import { type Fields, type Rule, rule, tag } from "./token.ts";

const { raw } = String;

/** Formats dates of the Gregorian calendar in UTC, with ASCII digits. */
export function createDateFormat(
  locale: string,
  options: Intl.DateTimeFormatOptions,
): Intl.DateTimeFormat {
  const common = { calendar: "gregory", numberingSystem: "latn", timeZone: "UTC" };
  return new Intl.DateTimeFormat(locale, { ...common, ...options });
}

/** The months of each language, from 1 on, by name: in lower case, without a full stop. */
const months = new Map<string, ReadonlyMap<string, number>>();

/** The names of the months from `Intl`, long and short. */
export const readMonths = (locale: string): ReadonlyMap<string, number> =>
  months.getOrInsertComputed(locale, collectMonths);

/** The number of a month, from its name or its digits. */
export function readMonth(written: string, locale: string): number {
  const name = written.toLowerCase().replace(/\.$/, "");
  const names = readMonths(locale);
  return names.get(name) ?? names.get(name.slice(0, 3)) ?? Number(name);
}

/** Collects long and short names, with a day and alone; if two months share a name, it means the first. */
function collectMonths(locale: string): Map<string, number> {
  const formats = (["long", "short"] as const).flatMap((month) =>
    (["numeric", undefined] as const).map((day) => createDateFormat(locale, { day, month }))
  );
  const names = formats.flatMap((format) =>
    Array.from({ length: 12 }, (_, i) => {
      const parts = format.formatToParts(Date.UTC(2000, i));
      const name = parts.find(({ type }) => type === "month")!.value;
      return [name.toLowerCase().replace(/\.$/, ""), i + 1] as const;
    })
  );
  return new Map(names.filter(([name]) => /^\p{L}{3,}/u.test(name)).reverse());
}

/** Two digits mean a year from 1950 to 2049. */
export function readYear(figures: string): number {
  const year = Number(figures.replace(/^'/, ""));
  return figures.length > 3 ? year : year < 50 ? 2000 + year : 1900 + year;
}

/** Whether the date exists; without a year, a leap year is assumed. */
function isDate({ day, lastDay, month, year }: Fields): boolean {
  const fullYear = year === undefined ? 2000 : readYear(year);
  const date = new Date(Date.UTC(fullYear, Number(month) - 1, Number(lastDay ?? day)));
  return Number(day) >= 1 && date.getUTCDate() === Number(lastDay ?? day) &&
    date.getUTCMonth() === Number(month) - 1;
}

const START = raw`(?<![\p{L}\d./:-]|\d,)`;
const END = raw`(?![\p{L}\d]|[-/:]\d)`;
const YEAR = raw`(?<year>(?:1[5-9]|20)\d\d|(?<=\/)\d\d)`;

/** A rule for dates that exist. */
export const validDate: ReturnType<typeof rule> = rule("date", {}, isDate);

/** Rules for dates in digits: ISO 8601, then in the language's order. */
export function numericDateRules(isMonthFirst: boolean): Rule[] {
  const monthFirst =
    validDate`${START}(?<month>\d{1,2})(?<mark>[\/-])(?<day>\d{1,2})\k<mark>${YEAR}${END}`;
  return [
    tag
      .date`${START}(?<year>\d{4})(?<mark>[-\/])(?<month>\d\d)\k<mark>(?<day>\d\d)(?:${END}|(?=T\d))`,
    ...(isMonthFirst ? [monthFirst] : []),
    validDate`${START}(?<day>\d{1,2})(?<mark>[\/.-])(?<month>\d{1,2})\k<mark>${YEAR}${END}`,
  ];
}

/**
 * A rule for a day and the name of its month, perhaps with a year: `3. Mai 2024`, `15 de marzo de 2024`.
 *
 * @param dayMark pattern of what may follow the digits of a day: `er`, a full stop.
 * @param link pattern between day, month and year: `de`.
 */
export function dayMonthRule(locale: string, dayMark: string, link?: string): Rule {
  const between = link === undefined ? raw`\s` : raw`\s(?:${link}\s)?`;
  const day = (name: string) => raw`(?<${name}>\d{1,2})(?:${dayMark})?`;
  const days = raw`${day("day")}(?:\s?[-\u2013]\s?${day("lastDay")})?`;
  const month = raw`(?<month>${matchAny(readMonths(locale).keys())})\b(?:\.(?=\s?[\p{Ll}\d,]))?`;
  const year = raw`(?:,?${between}(?<year>'?\d\d|\d{4})(?![\p{L}\d:]|[.,]\d))?`;
  const isDay = ({ month, ...fields }: Fields) =>
    isDate({ ...fields, month: String(readMonth(month!, locale)) });
  return rule("date", {}, isDay)`(?i:${START}${days}${between}${month}${year})`;
}

/** An hour that is not part of another number, but may end a range or follow a date. */
export const HOUR = raw`(?:(?<=-\d\dT)|(?<![\p{L}:.,/$\u20ac\u00a3]|\d))(?<hour>[01]?\d|2[0-4])`;
export const MINUTE = raw`(?<minute>[0-5]\d)`;
/** A time of day on the 24-hour clock. */
export const CLOCK = raw`${HOUR}:${MINUTE}(?::(?<second>[0-5]\d)(?:\.\d+(?=Z))?)?(?![:\d]|[.,]\d)`;

export const CLOCK_RULE: Rule = tag.time`${CLOCK}(?:(?<zone>Z)\b)?`;
