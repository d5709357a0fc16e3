/**
 * Recognises what most languages write alike: addresses, telephone numbers, abbreviations, scores, versions, plain
 * numbers, and dates and times in figures.
 *
 * @module
 */
import type { Table } from "./nouns.ts";
import { type DecimalSign, makeNumberPattern, matchAny } from "./numbers.ts";
import { type Condition, type Fields, type Rule, rule, tag, words } from "./token.ts";

const { cardinal, electronic, telephone } = tag;
const { raw } = String;

/** Top-level domains that are hardly ever the first word of a sentence after a missing space. */
const DOMAINS = "com|org|net|io|dev|edu|gov|ai|app|info|eu|uk|de|fr|ch|at|es|it|pt|br|ca|au|jp";
/** Extensions of file names. */
const FILES =
  "txt|pdf|js|ts|py|rs|sh|cpp|java|json|csv|md|html?|css|xml|ya?ml|png|jpe?g|gif|svg|zip|exe|docx?|xlsx?|pptx?|mp[34]|wav|gz|tar|log|onnx|gguf|wasm";

/** The port, path and query of an address, without punctuation that ends the sentence. */
const REST = raw`(?::\d{2,5}\b)?(?:[/?#](?:[^\s<>()"',;]*[\p{L}\p{N}_/])?)?`;
const IP = raw`\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)`;
const NAME = raw`[\p{L}\p{N}_.-]`;

/** Rules for addresses, tried before all others since they contain full stops and digits. */
export const ELECTRONIC_RULES: readonly Rule[] = [
  electronic`(?i:(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)`,
  electronic`(?i:\b(?:https?|ftp|wss?|file):\/\/(?:www\.)?(?<text>\/?[\w-]+(?:\.[\w-]+)*${REST}))`,
  electronic`(?i:(?<![\w@./-])(?:www(?:\.[\w-]+)+|(?:[\w-]+\.)+(?:${DOMAINS})\b(?:\.[a-z]{2}\b)?|localhost(?=[:/]\w)|${IP})${REST}(?![\w@]))`,
  // Paths on Windows, other paths, and names of files.
  electronic`(?i:(?<![\p{L}\p{N}])[a-z]:\\(?:${NAME}+\\)*(?:${NAME}*[\p{L}\p{N}_])?)`,
  electronic`(?i:(?<![\w/.])(?:(?:~|\.{1,2})?(?:\/${NAME}*[\p{L}\p{N}_]){2,}\/?|(?:~|\.{1,2})\/${NAME}*[\p{L}\p{N}_]\/?))`,
  electronic`(?i:(?<![\w./])(?:[\w-]+\/)*[\w-]+\.(?:${FILES})(?![\w@]))`,
];

const isLong = ({ text }: Fields) => text!.replaceAll(/\D/g, "").length >= 6;
const paddedTelephone = rule("telephone", {}, isLong);

/** Rules for numbers that are read digit by digit. */
export const TELEPHONE_RULES: readonly Rule[] = [
  // Numbers with a country code.
  telephone`(?<![\p{L}\d])\+\d[\d ().\u2011\/-]{6,20}\d(?![\d-])`,
  // Groups of digits with a leading zero.
  paddedTelephone`(?<![\p{L}\d.,:\/-])\(?0\d{1,5}\)?(?:[ \/-]\d{2,8}){1,5}(?![\d:-]|[.,\/]\d)`,
  // A payment card's number.
  telephone`(?<![\p{L}\d.,-])\d{4}(?<hyphen>[ -])\d{4}(?:\k<hyphen>\d{4}){2}(?![\d-])`,
  // Book numbers, account numbers and similar: at least three groups.
  rule("telephone", { mark: "groups" })`(?<![\p{L}\d.$-])\d+(?:-\d+){2,}(?![\p{L}\d-])`,
  // A number with a leading zero.
  telephone`(?<![\d.,:])0\d+(?![\d:]|[.,]\d)`,
];

/** The abbreviations of a language. A space in a key may be missing in the text. */
export interface Abbreviations {
  /** Abbreviations that end with a full stop: `Dr` is "Doctor". */
  readonly stopped: Table;
  /** Abbreviations that end with a full stop, and count only before a number: `p. 3`, `vol. II`. */
  readonly counted: Table;
  /** Abbreviations without a full stop: `w/o`. */
  readonly plain: Table;
}

/** The full stop of an abbreviation. If it also ends the sentence, it stays in the text. */
export const STOP = raw`(?:\.(?=\s*[^\s"')\]\u201d\u2019])|(?=\.))`;

/** Makes the rules for all three kinds; `{text:abbreviation}` inserts the words of an abbreviation. */
export function makeAbbreviationRules({ stopped, counted, plain }: Abbreviations): Rule[] {
  const read = (table: Table, end: string) => {
    const keys = Object.keys(table);
    const names = matchAny([...keys, ...keys.filter(isWord).map(capitalize)]).replaceAll(
      " ",
      "\\s?",
    );
    return words`{text:abbreviation} <- (?<![\p{L}\d.])(?<text>${names})${end}`;
  };
  return [
    read(plain, raw`(?![\p{L}\d])`),
    read(counted, raw`\.(?=\s?\(?(?:[\d#]|(?:[IVXL]{2,}|[VX])(?![\p{L}\d])))`),
    read(stopped, STOP),
  ];
}

const capitalize = (text: string) => text[0]!.toUpperCase() + text.slice(1);
/** Whether an abbreviation has at least two letters: a single one may mean anything. */
const isWord = (abbreviation: string) => /^\p{L}{2}/u.test(abbreviation);

/** The words for an abbreviation, which may be capitalised: `Fig.` is "Figure" if the table has `fig`. */
export function expandAbbreviation(written: string, words: ReadonlyMap<string, string>): string {
  return words.get(written) ??
    capitalize(words.get(written[0]!.toLowerCase() + written.slice(1)) ?? written);
}

const MINUS = raw`(?<minus>(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;^])[-\u2212])`;

/** Makes the rule for scores: `2:1`. */
export const makeScoreRule = (versus: string): Rule =>
  words`{number} ${versus} {last} <- (?<![\d:.])(?<number>\d{1,4}(?:\.\d+)?):(?<last>\d{1,4}(?:\.\d+)?)(?![\d:]|[.,]\d)`;

const isVersion: Condition = ({ text }, { after }) =>
  !/^[1-9]\d{0,2}(?:\.\d{3}){2,}$/.test(text!) && !/^,\d/.test(after);

/**
 * At least three numbers with points between them: a version or a section. Numbers with groups of three digits, which
 * look alike, are excluded.
 */
export const VERSION_RULE: Rule = rule(
  "verbatim",
  { said: "{text:version}" },
  isVersion,
)`(?<![\p{L}\d]|\d[.,])\d+(?:\.\d+){2,}(?!\d)`;

/** Makes the rule for numbers that no other rule reads. */
export const makeCardinalRule = (decimalSign: DecimalSign): Rule =>
  cardinal`(?:${MINUS}(?=[.\d]))?(?<number>${makeNumberPattern(decimalSign)})`;

/** Formats dates of the Gregorian calendar in UTC, with ASCII digits. */
export function createDateFormat(
  locale: string,
  options: Intl.DateTimeFormatOptions,
): Intl.DateTimeFormat {
  const common = { calendar: "gregory", numberingSystem: "latn", timeZone: "UTC" };
  return new Intl.DateTimeFormat(locale, { ...common, ...options });
}

/**
 * For each language, the numbers of the months, counted from 1, by name. Names are in lower case, without a full stop.
 */
const months = new Map<string, ReadonlyMap<string, number>>();

/** Reads the names of the months from `Intl`, long and short. */
export const readMonths = (locale: string): ReadonlyMap<string, number> =>
  months.getOrInsertComputed(locale, collectMonths);

/** Reads the number of a month from its name or its digits. */
export function readMonth(written: string, locale: string): number {
  const name = written.toLowerCase().replace(/\.$/, "");
  const names = readMonths(locale);
  return names.get(name) ?? names.get(name.slice(0, 3)) ?? Number(name);
}

/**
 * Collects long and short names, as they are written with a day and alone. If two months share a name, the name means
 * the first.
 */
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

/** Reads a year. Two digits mean a year from 1950 to 2049. */
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

/** Makes rules for dates that exist. */
export const validDate: ReturnType<typeof rule> = rule("date", {}, isDate);

/**
 * Makes the rules for dates in digits: ISO 8601, then with the month first if the language has that order, then with
 * the day first.
 */
export function makeNumericDateRules(isMonthFirst: boolean): Rule[] {
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
 * Makes the rule for a day and the name of its month, perhaps with a year: `3. Mai 2024`, `15 de marzo de 2024`.
 *
 * @param dayMark pattern of what may follow the digits of a day: `er`, a full stop.
 * @param link pattern between day, month and year: `de`.
 */
export function makeDayMonthRule(locale: string, dayMark: string, link?: string): Rule {
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
