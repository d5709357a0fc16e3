/**
 * What the data of several languages share.
 *
 * @module
 */
import type { MatchContext } from "../language.ts";

/** Names with blanks between them. */
export const setOf = (names: string): ReadonlySet<string> => new Set(names.split(" "));

/** Days of a month that are said as plain numbers. */
export const cardinalDay = (day: number, { say }: MatchContext): string => say.cardinal(day);

/** The first of a month is an ordinal, the other days are not. */
export const ordinalFirst = (day: number, { say }: MatchContext): string =>
  day === 1 ? say.ordinal(day) : say.cardinal(day);

/** Years from 1100 to 1999 in hundreds: nineteen hundred and so on, in one word. */
export const yearInHundreds =
  (hundred: string): (year: number, context: MatchContext) => string => (year, { say }) => {
    if (year < 1_100 || year >= 2_000) return say.cardinal(year);
    const rest = year % 100;
    return say.cardinal(Math.floor(year / 100)) + hundred + (rest === 0 ? "" : say.cardinal(rest));
  };

/** Where a text ends in one of the words. */
export const endIn = (words: string): RegExp => new RegExp(`(?:^|[^\\p{L}])(?:${words})\\s*$`, "u");

/** Two figures of minutes, with the nought that is said too. */
export function sayMinutes(minute: number, { say }: MatchContext): string {
  if (minute === 0) return "";
  return ` ${minute < 10 ? `${say.cardinal(0)} ` : ""}${say.cardinal(minute)}`;
}

/** The hour as a unit of time, and minutes as a bare number. */
export const hoursAndMinutes = (hour: number, minute: number, { say }: MatchContext): string =>
  say.unit(hour, "hour") + (minute === 0 ? "" : ` ${say.cardinal(minute)}`);

/** Hours and minutes as units of time. */
export const hoursAndMinuteUnits = (hour: number, minute: number, { say }: MatchContext): string =>
  say.unit(hour, "hour") + (minute === 0 ? "" : ` ${say.unit(minute, "minute")}`);

/** The hour without its noun, feminine as that is, and minutes after a word. */
export const feminineHour =
  (and: string): (hour: number, minute: number, context: MatchContext) => string =>
  (hour, minute, { say }) =>
    say.cardinal(hour, "feminine") + (minute === 0 ? "" : ` ${and} ${say.cardinal(minute)}`);
