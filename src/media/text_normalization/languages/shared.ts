/**
 * What several languages say alike.
 *
 * @module
 */
import type { Language, Tools } from "../language.ts";
import type { CalendarDate, Context, Scale, Time } from "../token.ts";

/** Whether a text ends in one of the words. */
export const endsIn = (words: string): RegExp =>
  new RegExp(`(?:^|[^\\p{L}])(?:${words})\\s*$`, "iu");

/** The name of a month as a date has it. */
export function nameMonth(month: number, locale: string): string {
  const format = new Intl.DateTimeFormat(locale, {
    day: "numeric",
    month: "long",
    calendar: "gregory",
    timeZone: "UTC",
  });
  const parts = format.formatToParts(Date.UTC(2000, month - 1));
  return parts.find(({ type }) => type === "month")!.value;
}

/** Day, month and year with a word between them; the first of a month may be an ordinal. */
export function dayMonthYear(
  { locale, link = " ", to, hasOrdinalFirst }: {
    readonly locale: string;
    readonly link?: string;
    readonly to: string;
    readonly hasOrdinalFirst: boolean;
  },
): (date: CalendarDate, context: Context, tools: Tools) => string {
  return ({ day, lastDay, month, year }, _, { numbers }) => {
    const say = (number: number) =>
      number === 1 && hasOrdinalFirst ? numbers.ordinal("1") : numbers.cardinal(String(number));
    const days = lastDay === undefined ? say(day!) : `${say(day!)} ${to} ${say(lastDay)}`;
    const end = year === undefined ? "" : link + numbers.cardinal(String(year));
    return `${days}${link}${nameMonth(month, locale)}${end}`;
  };
}

/** The hour as a unit of time, and minutes as a bare number. */
export const hoursAndMinutes = (
  { hour, minute }: Time,
  _: Context,
  { numbers, lexicon }: Tools,
): string => {
  const amount = { isNegative: false, digits: String(hour) };
  const hours = lexicon.measure({ kind: "measure", amount, unit: "h" });
  return minute === 0 ? hours : `${hours} ${numbers.cardinal(String(minute))}`;
};

/** The hour without its noun but in its gender, and minutes after a word. */
export const feminineHour =
  (and: string): Language["sayTime"] =>
  ({ hour, minute }: Time, _: Context, { numbers }: Tools): string =>
    numbers.cardinal(String(hour), "feminine") +
    (minute === 0 ? "" : ` ${and} ${numbers.cardinal(String(minute))}`);

/** Spelled-out scales in the forms in which texts have them. */
export function readScales(forms: Partial<Record<Scale, string>>): Record<string, Scale> {
  return Object.fromEntries(
    Object.entries(forms).flatMap(([scale, words]) =>
      words.split(" ").map((word) => [word, scale as Scale])
    ),
  );
}
