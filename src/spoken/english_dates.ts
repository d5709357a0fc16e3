/**
 * English: dates.
 *
 * @module
 */
import { sayOrdinal, sayYear } from "./english_numbers.ts";
import { sayTime } from "./english_times.ts";
import type { Rule } from "./rule.ts";

const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const SHORT = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec";
const MONTH = `(${MONTHS.join("|")}|(?:${SHORT})\\.?(?![a-z]))`;
const DAY = String.raw`([1-9]|[12]\d|3[01])(?:st|nd|rd|th)?`;

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const WEEKDAY = "(Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)";

/** The whole of a short name. */
function nameIn(names: readonly string[], written: string): string {
  return names.find((name) => name.startsWith(written.slice(0, 3))) ?? written;
}

function sayDate(month: string, day: string, year?: string): string {
  const date = `${nameIn(MONTHS, month)} ${sayOrdinal(day)}`;
  return year === undefined ? date : `${date}, ${sayYear(year)}`;
}

/** A date whose month is a word, its parts in either order. */
function sayWrittenDate(match: string, parts: readonly (string | undefined)[]): string {
  const [month, first, last, year, day, monthAfter, yearAfter] = parts;
  if (month !== undefined) {
    const days = sayDate(month, first!) + (last === undefined ? "" : ` to ${sayOrdinal(last)}`);
    return year === undefined ? days : `${days}, ${sayYear(year)}`;
  }
  if (yearAfter !== undefined && !/^the | of /.test(match)) {
    return sayDate(monthAfter!, day!, yearAfter);
  }
  const date = `the ${sayOrdinal(day!)} of ${nameIn(MONTHS, monthAfter!)}`;
  return yearAfter === undefined ? date : `${date}, ${sayYear(yearAfter)}`;
}

/** A day by its numbers, or the match as it is where there is no such day. */
function sayNumericDate(
  match: string,
  [month, day, year]: readonly [month: string, day: string, year?: string | undefined],
): string {
  const name = MONTHS[Number(month) - 1];
  const isDay = Number(day) >= 1 && Number(day) <= 31;
  if (name === undefined || !isDay) return match;
  const century = year?.length === 2 ? (Number(year) < 50 ? "20" : "19") : "";
  return sayDate(name, String(Number(day)), year && century + year);
}

/** In order: those with words first, as a number before one in figures is not its day. */
export const DATE_RULES: readonly Rule[] = [
  [
    new RegExp(String.raw`\b${WEEKDAY}\.?\s?[-\u2013]\s?${WEEKDAY}\b\.?`, "g"),
    (_, first, last) => `${nameIn(WEEKDAYS, first!)} to ${nameIn(WEEKDAYS, last!)}`,
  ],
  // Sat and Sun are also words.
  [
    new RegExp(
      String.raw`\b${WEEKDAY}\.?(?=,? (?:${MONTH} )?\d)|\b(Mon|Tues?|Wed|Thurs?|Fri)\.(?= \S)`,
      "g",
    ),
    (_, timed, __, other) => nameIn(WEEKDAYS, (timed ?? other)!),
  ],
  [
    new RegExp(
      String.raw`\b${MONTH} ${DAY}(?:\s?[-\u2013]\s?${DAY})?(?:,? (\d{4}))?\b(?![:.,/]?\d)` +
        String
          .raw`|(?:the )?(?<![\w.,:/$-])${DAY} (?:of )?${MONTH}(?! \d{1,2}\b(?!:))(?:,? (\d{4})\b)?`,
      "g",
    ),
    (match, ...parts) => sayWrittenDate(match, parts),
  ],
  [
    new RegExp(String.raw`\b(${SHORT})(?:\.(?= (?:\p{Ll}|\d))|(?= \d{4}\b))`, "gu"),
    (_, month) => nameIn(MONTHS, month!),
  ],
  [
    /(?<![\d-])(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(Z?)(?!\d)/g,
    (match, year, month, day, hour, minute, second, zone) =>
      `${sayNumericDate(match, [month!, day!, year!])} at ${sayTime(hour!, minute!, { second })}${
        zone && " UTC"
      }`,
  ],
  [
    /(?<![\d/-])(\d{4})([-/])(\d\d)\2(\d\d)(?![\d/-])/g,
    (match, year, _, month, day) => sayNumericDate(match, [month!, day!, year!]),
  ],
  // As in the United States, or with the day first where only that is a date.
  [
    /(?<![\d/])(\d{1,2})\/(\d{1,2})\/(\d{4}|\d\d)(?![\d/])/g,
    (match, first, second, year) =>
      sayNumericDate(match, Number(first) > 12 ? [second!, first!, year] : [first!, second!, year]),
  ],
  [
    /(?<=\b(?:on|since|until|due) )(\d{1,2})\/(\d{1,2})(?![\d/%])/gi,
    (match, month, day) => sayNumericDate(match, [month!, day!]),
  ],
  // As in most of Europe.
  [
    /(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)(?!\d|\.\d)/g,
    (match, day, month, year) => sayNumericDate(match, [month!, day!, year]),
  ],
];
