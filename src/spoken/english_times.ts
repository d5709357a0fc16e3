/**
 * English: times of day, and other numbers with a colon between them.
 *
 * @module
 */
import { sayNumber } from "./english_numbers.ts";
import type { Rule } from "./rule.ts";

/** A half of the day. Without a full stop in it, one after it is the sentence's. */
const HALF = String.raw`([ap])(?:m\b|\.m\b\.?)`;

/** Their chapters and verses look like times and scores. */
const BOOKS =
  "Genesis|Exodus|Psalms?|Proverbs|Isaiah|Matthew|Mark|Luke|John|Acts|Romans|Corinthians|Revelation|Surah|Quran|verse";

/** The full stop of a half that also ends the sentence. */
function endOf(match: string, next: string | undefined): string {
  return match.endsWith(".") && next === "" ? "." : "";
}

/** Two figures of minutes or seconds. */
function sayPart(figures: string): string {
  const number = sayNumber(String(Number(figures)));
  return figures.startsWith("0") ? `oh ${figures === "00" ? "oh" : number}` : number;
}

/**
 * A time of day, with twelve or 24 hours.
 *
 * @param options.half whether it is the morning's, `a`, or the afternoon's, `p`.
 */
export function sayTime(
  hour: string,
  minute: string,
  { second = "00", half }: {
    readonly second?: string | undefined;
    readonly half?: string | undefined;
  } = {},
): string {
  const letters = half === undefined ? "" : ` ${half[0]!.toUpperCase()} M`;
  const hours = sayNumber(String(Number(hour)));
  if (second !== "00") return `${hours} ${sayPart(minute)} ${sayPart(second)}${letters}`;
  if (minute !== "00") return `${hours} ${sayPart(minute)}${letters}`;
  if (half !== undefined) return `${hours}${letters}`;
  if (Number(hour) === 0) return "midnight";
  return Number(hour) > 12 ? `${hours} hundred` : `${hours} o'clock`;
}

/** In order: the longer forms first. */
export const TIME_RULES: readonly Rule[] = [
  // From one time of day to another.
  [
    /(?<=\d(?:\s?[ap]\.?m\.?)?)\s?[-\u2013]\s?(?=\d{1,2}(?::\d\d\b|(?::\d\d)?\s?[ap]\.?m\b))/gi,
    () => " to ",
  ],
  [
    new RegExp(
      String
        .raw`(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![:\d])(?:\s?${HALF})?(?=\s*(\S?))`,
      "gi",
    ),
    (match, hour, minute, second, half, next) =>
      sayTime(hour!, minute!, { second, half }) + endOf(match, next),
  ],
  [
    new RegExp(String.raw`(?<![\d:.])(1[0-2]|[1-9])\s?${HALF}(?=\s*(\S?))`, "gi"),
    (match, hour, half, next) => sayTime(hour!, "00", { half }) + endOf(match, next),
  ],
  [
    /\b([ap])\.m\.(?=\s*(\S?))/g,
    (match, half, next) => `${half!.toUpperCase()} M${endOf(match, next)}`,
  ],
  // Scores and proportions.
  [new RegExp(String.raw`(?<=\b(?:${BOOKS}) \d{1,3}):(?=\d)`, "gi"), () => " "],
  [/(?<![\d:.])(\d{1,3}):(?=\d{1,3}(?![\d:]))/g, (_, first) => `${first} to `],
  [/(?<=\d):(?=\d)/g, () => " "],
];
