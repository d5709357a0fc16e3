/**
 * Dates, years and times of day.
 *
 * @module
 */
import type { Language, MatchContext } from "./language.ts";
import { anyOf, type TextRule } from "./text_rule.ts";
import { replaceAll } from "./rule.ts";

/** Days: in figures, the day first or as in ISO 8601, they get the month's name first. */
export function dateRules({ locale, dates }: Language): TextRule[] {
  if (dates === undefined) return [];
  const { day: sayDay, yearForms = [] } = dates;
  const sayYear = dates.year ?? ((year, { say }) => say.cardinal(year));
  const format = new Intl.DateTimeFormat(locale, {
    day: "numeric",
    month: "long",
    year: "numeric",
    calendar: "gregory",
    numberingSystem: "latn",
    timeZone: "UTC",
  });
  const writeMonth = (day: string, month: string, year: string) => {
    const date = new Date(`${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}T00:00:00Z`);
    const isDay = date.getUTCDate() === Number(day);
    return isDay ? format.format(date) : undefined;
  };
  const months = Array.from({ length: 12 }, (_, month) => {
    const parts = format.formatToParts(Date.UTC(2000, month));
    return parts.find(({ type }) => type === "month")!.value;
  }).filter((month) => !/\d/.test(month));
  return [
    {
      pattern: /(?<![\d./-])(\d{4})-(\d\d)-(\d\d)(?![\d/-])/g,
      say: ([year, month, day]) => writeMonth(day!, month!, year!),
    },
    {
      pattern: /(?<![\d./-])(\d{1,2})([./-])(\d{1,2})\2((?:19|20)\d\d)(?![\d/-]|\.\d)/g,
      say: ([day, _, month, year]) => writeMonth(day!, month!, year!),
    },
    ...yearForms.map(({ noun, after, endings, said }): TextRule => ({
      pattern: new RegExp(String.raw`(?<![\p{L}\d.,:/-])([12]\d{3})\s(?:${noun})(?!\p{L})`, "gu"),
      say: ([year], { say, before }) =>
        after === undefined || after.test(before)
          ? `${replaceAll(say.ordinal(year!), endings)} ${said}`
          : undefined,
    })),
    ...(months.length === 0 ? [] : [
      {
        pattern: new RegExp(
          String
            .raw`(?<![\p{L}\d.,:/-])([1-9]|[12]\d|3[01])(?:\.|er|[\u00ba\u00b0]|:e|-\u0433\u043e)?` +
            String.raw`( (?:de )?(?:${anyOf(months)}))(?!\p{L})(?:( (?:de )?)(\d{4})(?!\d))?`,
          "giu",
        ),
        say: ([day, month, link = "", year], context) =>
          sayDay(Number(day), context) + month + link +
          (year === undefined ? "" : sayYear(Number(year), context)),
      } satisfies TextRule,
    ]),
  ];
}

/** Times of day. */
export function clockRules({ clock, to }: Language): TextRule[] {
  if (clock === undefined) return [];
  const hour = String.raw`(?<![\p{L}\d:.,/])([01]?\d|2[0-4])`;
  const suffix = clock.suffix ?? "(?!)";
  const say = ([hours, minutes = "0"]: readonly (string | undefined)[], context: MatchContext) =>
    clock.say(Number(hours), Number(minutes), context);
  const rule = (pattern: string): TextRule => ({ pattern: new RegExp(pattern, "gu"), say });
  return [
    ...(to === undefined ? [] : [{
      pattern: /(?<=\d:\d\d)\s?[-\u2013]\s?(?=\d{1,2}:\d\d)/g,
      say: () => to,
    }]),
    rule(String.raw`${hour}:([0-5]\d)(?![:\d]|\s?[apAP]\.?[mM]\b)(?:\s?${suffix})?`),
    ...(clock.suffixTells ? [rule(String.raw`${hour}(?:\.([0-5]\d))?\s?${suffix}`)] : []),
    ...(clock.letter === undefined
      ? []
      : [rule(String.raw`${hour}\s?${clock.letter}\s?([0-5]\d)(?!\s?min|[\p{L}\d])`)]),
    ...(clock.prefix === undefined
      ? []
      : [rule(String.raw`(?<=(?<!\p{L})(?:${clock.prefix})\s)${hour}\.([0-5]\d)(?!\d|[.,]\d)`)]),
  ];
}

/** Years that stand alone, where they are said in another way than numbers. */
export function yearRules({ dates }: Language): TextRule[] {
  const { year: sayYear, hasBareYears } = dates ?? {};
  if (sayYear === undefined || !hasBareYears) return [];
  return [{
    pattern: /(?<![\p{L}\d.,:/-])(1[1-9]\d\d)(?![\d:/]|[.,]\d)/gu,
    say: ([year], context) => sayYear(Number(year), context),
  }];
}
