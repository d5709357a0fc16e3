/**
 * Recognizes times of day.
 *
 * @module
 */
import type { Rule, Time } from "./token.ts";

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

const HOUR = String.raw`(?<![\p{L}\d:.,/$\u20ac\u00a3-]|\d[-\u2013])([01]?\d|2[0-4])`;
/** The same, also as the end of a range. */
const ANY_HOUR = String.raw`(?<![\p{L}:.,/$\u20ac\u00a3]|\d)([01]?\d|2[0-4])`;
const MINUTE = String.raw`([0-5]\d)`;

function read([hour, minute, second]: readonly (string | undefined)[]): Time {
  return {
    kind: "time",
    hour: Number(hour),
    minute: Number(minute ?? 0),
    second: second === undefined ? undefined : Number(second),
  };
}

/** Times with 24 hours. */
export function clockRules({ suffix = "(?!)", suffixTells, prefix, letter }: TimeSyntax): Rule[] {
  const rule = (pattern: string): Rule => ({ pattern: new RegExp(pattern, "uy"), read });
  return [
    rule(String.raw`${ANY_HOUR}:${MINUTE}(?::${MINUTE})?(?![:\d]|[.,]\d)(?:\s?${suffix})?`),
    ...(suffixTells
      ? [
        rule(
          String
            .raw`${ANY_HOUR}(?:[.:]${MINUTE})?(?=\s?[-\u2013]\s?\d{1,2}(?:[.:]\d\d)?\s?${suffix})|` +
            String.raw`${ANY_HOUR}(?:[.:]${MINUTE})?\s?${suffix}`,
        ),
      ]
      : []),
    ...(letter === undefined
      ? []
      : [rule(String.raw`${HOUR}\s?${letter}\s?${MINUTE}(?!\s?min|[\p{L}\d])`)]),
    ...(prefix === undefined
      ? []
      : [rule(String.raw`(?<=(?<!\p{L})(?:${prefix})\s)${HOUR}\.${MINUTE}(?!\d|[.,]\d)`)]),
  ].map(({ pattern, read: readTime }) => ({
    pattern,
    // Either half of the alternatives has matched.
    read: (groups, context) => readTime(groups.slice(groups[0] === undefined ? 2 : 0), context),
  }));
}
