/**
 * How English says years, times, dates, fractions and numbers in names.
 *
 * @module
 */
import type { NumberWords } from "../number_words.ts";
import type { CalendarDate, Fraction, Time } from "../token.ts";
import { nameMonth } from "./shared.ts";

export const MONTHS: readonly string[] = Array.from(
  { length: 12 },
  (_, i) => nameMonth(i + 1, "en"),
);

/** English readings of numbers. */
export class EnglishNumbers {
  readonly #numbers: NumberWords;

  constructor(numbers: NumberWords) {
    this.#numbers = numbers;
  }

  #say(number: number | string): string {
    return this.#numbers.cardinal(String(number));
  }

  /** `1984` is "nineteen eighty-four"; years outside of 1000 to 9999 are plain numbers. */
  year(year: number): string {
    if (year < 1_000 || year > 9_999) return this.#say(year);
    const century = Math.floor(year / 100);
    const rest = year % 100;
    if (rest === 0) return century % 10 === 0 ? this.#say(year) : `${this.#say(century)} hundred`;
    if (rest > 9) return `${this.#say(century)} ${this.#say(rest)}`;
    return century % 10 === 0 ? this.#say(year) : `${this.#say(century)} oh ${this.#say(rest)}`;
  }

  /** `1990s` is "nineteen nineties". */
  decade(year: number): string {
    const decade = year % 100;
    if (decade === 0 && year > 99) return `${this.year(year)}s`;
    const tens = this.#say(decade).replace(/y$/, "ies");
    return year < 100 ? tens : `${this.#say(Math.floor(year / 100))} ${tens}`;
  }

  /** The figures in a name such as a model's: four of them are read as a year is. */
  figures(figures: string): string {
    if (figures.startsWith("0") && figures.length > 1 || figures.length > 4) {
      return this.#numbers.digits(figures);
    }
    return figures.length === 4 ? this.year(Number(figures)) : this.#say(figures);
  }

  time({ hour, minute, second = 0, half }: Time): string {
    const letters = half === undefined ? "" : half === "am" ? " A M" : " P M";
    const hours = this.#say(hour);
    const part = (number: number) =>
      number > 9 ? this.#say(number) : `oh ${number === 0 ? "oh" : this.#say(number)}`;
    if (second !== 0) return `${hours} ${part(minute)} ${part(second)}${letters}`;
    if (minute !== 0) return `${hours} ${part(minute)}${letters}`;
    if (half !== undefined) return hours + letters;
    if (hour === 0) return "midnight";
    return hour > 12 ? `${hours} hundred` : `${hours} o'clock`;
  }

  date({ day, lastDay, month, year, isDayFirst }: CalendarDate): string {
    const name = MONTHS[month - 1]!;
    const end = year === undefined ? "" : `, ${this.year(year)}`;
    if (day === undefined) return year === undefined ? name : `${name} ${this.year(year)}`;
    const ordinal = (number: number) => this.#numbers.ordinal(String(number));
    const days = ordinal(day) + (lastDay === undefined ? "" : ` to ${ordinal(lastDay)}`);
    return isDayFirst ? `the ${days} of ${name}${end}` : `${name} ${days}${end}`;
  }

  fraction({ whole, numerator, denominator }: Fraction): string {
    const some = whole === undefined ? "" : `${this.#say(whole)} and `;
    const count = this.#say(numerator);
    if (denominator === 2) return `${some}${count} ${numerator === 1 ? "half" : "halves"}`;
    const part = denominator === 4 ? "quarter" : this.#numbers.ordinal(String(denominator));
    return `${some}${count} ${part}${numerator === 1 ? "" : "s"}`;
  }
}

/** Parts of a whole that have a name; more than the first ten are rare. */
const PARTS: ReadonlySet<number> = new Set([
  ...[2, 3, 4, 5, 6, 7, 8, 9, 10],
  ...[12, 16, 20, 32, 64, 100, 1000],
]);
/** What grades and votes are out of. */
const FULL_MARKS: ReadonlySet<number> = new Set([5, 10, 100]);
const OF_WHOLE = /^ (?:of|an?|mile|inch|second|cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|pound)\b/;

interface Stroke {
  readonly whole: number | undefined;
  readonly numerator: number;
  readonly denominator: number;
  readonly after: string;
}

/** Whether two numbers with a stroke between them are a grade: `7/10`. */
export function isGrade({ whole, numerator, denominator, after }: Stroke): boolean {
  const isAlone = whole === undefined && !OF_WHOLE.test(after);
  return isAlone && FULL_MARKS.has(denominator) && numerator > 1 && numerator <= denominator &&
    (denominator > 5 || numerator === denominator);
}

/** Whether two numbers with a stroke between them are part of a whole, unlike 9/11, 24/7 and 50/50. */
export function isFraction(stroke: Stroke): boolean {
  const { numerator, denominator, after } = stroke;
  if (isGrade(stroke) || /^\s?=/.test(after)) return false;
  return PARTS.has(denominator) &&
    (numerator < denominator || denominator <= 4 && numerator % denominator !== 0);
}
