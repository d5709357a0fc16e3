/**
 * English: dates and times of day.
 *
 * @module
 */
import { sayNumber, sayOrdinal, sayYear } from "./english_numbers.ts";
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

function nameMonth(written: string): string {
  return MONTHS.find((month) => month.startsWith(written.slice(0, 3))) ?? written;
}

function sayDate(month: string, day: string, year?: string): string {
  const date = `${month} ${sayOrdinal(day)}`;
  return year === undefined ? date : `${date}, ${sayYear(year)}`;
}

/** A day by its numbers, or the match as it is where there is no such day. */
function sayNumericDate(match: string, [month, day, year]: readonly string[]): string {
  const name = MONTHS[Number(month) - 1];
  const isDay = Number(day) >= 1 && Number(day) <= 31;
  return name !== undefined && isDay ? sayDate(name, String(Number(day)), year) : match;
}

/** As in the United States, or with the day first where only that is a date. */
function saySlashedDate(match: string, [first, second, year]: readonly string[]): string {
  const date = Number(first) > 12 ? [second!, first!, year!] : [first!, second!, year!];
  return sayNumericDate(match, date);
}

/** A half of the day. Without a full stop in it, one after it is the sentence's. */
const HALF = String.raw`([ap])(?:m\b|\.m\b\.?)`;

/** The full stop of a half that also ends the sentence. */
function endOf(match: string, next: string | undefined): string {
  return match.endsWith(".") && next === "" ? "." : "";
}

function sayTime(hour: string, minute: string, half?: string): string {
  const letters = half === undefined ? "" : ` ${half[0]!.toUpperCase()} M`;
  const hours = sayNumber(String(Number(hour)));
  if (minute === "00") return half === undefined ? `${hours} o'clock` : `${hours}${letters}`;
  const minutes = sayNumber(String(Number(minute)));
  return `${hours} ${minute.startsWith("0") ? "oh " : ""}${minutes}${letters}`;
}

/** In order: the longer forms first. Those in figures alone are read as in the United States. */
export const DATE_RULES: readonly Rule[] = [
  [
    /(?<![\d-])(\d{4})-(\d\d)-(\d\d)(?![\d-])/g,
    (match, year, month, day) => sayNumericDate(match, [month!, day!, year!]),
  ],
  [
    /(?<![\d/])(\d{1,2})\/(\d{1,2})\/(\d{4})(?![\d/])/g,
    (match, first, second, year) => saySlashedDate(match, [first!, second!, year!]),
  ],
  [
    new RegExp(String.raw`\b${MONTH} ${DAY}\s?[-\u2013]\s?${DAY}\b(?![:.,]?\d)`, "g"),
    (_, month, first, last) => `${sayDate(nameMonth(month!), first!)} to ${sayOrdinal(last!)}`,
  ],
  [
    new RegExp(String.raw`\b${MONTH} ${DAY},? (\d{4})\b`, "g"),
    (_, month, day, year) => sayDate(nameMonth(month!), day!, year),
  ],
  [
    new RegExp(String.raw`\b${DAY} (?:of )?${MONTH},? (\d{4})\b`, "g"),
    (_, day, month, year) => sayDate(nameMonth(month!), day!, year),
  ],
  [
    new RegExp(String.raw`\b${MONTH} ${DAY}\b(?![:.,]?\d)`, "g"),
    (_, month, day) => sayDate(nameMonth(month!), day!),
  ],
  [
    new RegExp(String.raw`\b(?:the )?${DAY} (?:of )?${MONTH}\b`, "g"),
    (_, day, month) => `the ${sayOrdinal(day!)} of ${nameMonth(month!)}`,
  ],
  // From one time of day to another.
  [
    /(?<=\d(?:\s?[ap]\.?m\.?)?)\s?[-\u2013]\s?(?=\d{1,2}(?::\d\d\b|(?::\d\d)?\s?[ap]\.?m\b))/gi,
    () => " to ",
  ],
  [
    new RegExp(
      String.raw`(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?![:\d])(?:\s?${HALF})?(?=\s*(\S?))`,
      "gi",
    ),
    (match, hour, minute, half, next) => sayTime(hour!, minute!, half) + endOf(match, next),
  ],
  [
    new RegExp(String.raw`(?<![\d:.])(1[0-2]|[1-9])\s?${HALF}(?=\s*(\S?))`, "gi"),
    (match, hour, half, next) => sayTime(hour!, "00", half) + endOf(match, next),
  ],
  // Seconds, scores and proportions.
  [/(?<=\d):(?=\d)/g, () => " "],
];
