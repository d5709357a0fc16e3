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

/** The years in which hundreds are counted: nineteen hundred and so on. */
export const isCountedInHundreds = (year: number): boolean => year >= 1_100 && year < 2_000;

/** Where a text ends in one of the words. */
export const endIn = (words: string): RegExp => new RegExp(`(?:^|[^\\p{L}])(?:${words})\\s*$`, "u");

/** Two figures of minutes, with the nought that is said too. */
export function sayMinutes(minute: number, { say }: MatchContext): string {
  if (minute === 0) return "";
  return ` ${minute < 10 ? `${say.cardinal(0)} ` : ""}${say.cardinal(minute)}`;
}
