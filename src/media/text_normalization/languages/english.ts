/**
 * English.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { type Noun, stripNumber } from "../nouns.ts";
import { matchAny, type NumberWords } from "../numbers.ts";
import {
  type Condition,
  type Context,
  type Fields,
  type Rule,
  rule,
  tag,
  words,
} from "../token.ts";
import data from "./english.json" with { type: "json" };
import { STOP, validDate } from "../common_rules.ts";

const { cardinal, date, measure, roman } = tag;
const { raw } = String;
const feet = rule("measure", { unit: "ft" });
const minutes = rule("measure", { unit: "min" });
const seconds = rule("measure", { unit: "s" });
const ordinalNumeral = rule("roman", { mark: "ordinal" });
const ruler = rule("roman", { mark: "ordinal", the: "the" });

/** Names of months in upper or lower case, except names that are also words. */
const MONTH =
  raw`(?<month>(?i:January|February|April|June|July|August|September|October|November|December)|` +
  raw`March|MARCH|May|MAY|(?:(?i:Jan|Feb|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)|Mar|MAR)(?:${STOP}|(?![A-Za-z.])))`;
const SHORT_MONTH = "(?<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)";
const DAY = raw`(?<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?`;
const LAST_DAY = DAY.replace("day", "lastDay");
const DASH = raw`\s?[-\u2013]\s?`;
const WEEKDAY = "(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)";
const DAY_FIRST =
  raw`(?:the )?(?<![\w.,:/$-])${DAY}(?: of)? ${MONTH}(?! \d{1,2}\b(?!:))(?:,? (?<year>\d{4})\b)?`;

/** Whether a date is said as "the third of May" rather than "May third". */
const isNamedDay: Condition = ({ text, year }, { before }) =>
  year === undefined || /^the | of /.test(text!) || / of $|the $/.test(before);

/** Nouns that follow a size in inches: a 27" screen. */
const NAMED = raw`\s?(?i:screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b`;
/** Text that may follow a length. */
const SIZED =
  raw`(?:["\u2033]?\s?(?i:[x\u00d7]\s?\d|(?:by|tall|high|wide|long|deep|thick)\b)|["\u2033]?${NAMED}|[.,;:!?)]|\s*$)`;
const INCHES = raw`(?<![\d.,])(?<number>\d+(?:\.\d+)?)["\u2033]`;
const FEET =
  raw`(?<!(?:^|\s)'[^']*)(?<![\d.,'])(?<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)['\u2032]`;

/** Whether no quotation is open, so that a quotation mark after a digit stands for inches. */
const isUnquoted: Condition = (_, { before }) => {
  let isOpen = false;
  for (const { index } of before.matchAll(/"/g)) {
    if (isOpen || !/\d$/.test(before.slice(0, index))) isOpen = !isOpen;
  }
  return !isOpen;
};

/** Denominators that are usual in fractions. */
const PART = /^(?:[2-9]|10|12|16|20|32|64|100|1000)$/;

/** Whether two numbers with a slash are a fraction, unlike 9/11, 24/7 and 50/50. */
function isFraction(...[fields, { before, after }]: Parameters<Condition>): boolean {
  const { numerator: above, denominator: below = "" } = fields;
  const isMixed = Number(below) <= 4 && Number(above) % Number(below) !== 0;
  const isWhole = /^\s?=/.test(after) && !/[+\u2212-]\s?$/.test(before);
  return PART.test(below) && !isWhole && (Number(above) < Number(below) || isMixed);
}

/** Units of time that may follow a slash without a number before it. */
const PERIOD = matchAny([...Object.keys(data.periods), "s", "sec", "min", "h", "hr", "wk", "yr"]);
const RATIO = raw`(?<![\d:.])(?<number>\d{1,4}):(?<last>\d{1,4})(?![\d:]|[.,]\d)`;
/** The start of two numbers with a slash: the first is not part of a longer number, name or fraction. */
const STROKE_START = raw`(?<![\d/.,\p{L}-]|\d )`;
/** The end of two numbers with a slash: the second is not part of a longer number or fraction. */
const STROKE_END = raw`(?![\d/]|[.,]\d)`;
/** Words that follow a tenth or a hundredth, but not a grade. */
const OF_WHOLE = " (?:of|an?|mile|inch|second|cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|pound)\\b";
const RAISED = raw`\u2070\u00b9\u00b2\u00b3\u2074-\u2079`;

/** Makes a pattern for words whose first letter may be upper or lower case. */
const matchEitherCase = (words: readonly string[]) =>
  words.map((word) => `[${word[0]}${word[0]!.toUpperCase()}]${word.slice(1)}`).join("|");
/** Roman numerals up to 89. */
const NUMERAL = raw`(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})`;
/** Roman numerals of several letters, except those that are mostly sizes or abbreviations. */
const LONG = raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;

/** The position after a house number and the name of a road. */
const ADDRESS =
  raw`(?<=\b\d+[a-z]?\s(?:[NSEW]\.?\s)?(?:\p{Lu}[\p{Ll}']+\s){1,3}|\d(?:st|nd|rd|th)\s)`;
const ROAD = `(?:${data.roads.replaceAll(" ", "|")}|Street|Avenue|Road|Drive|Lane|Boulevard)`;
const ADDRESS_END = raw`(?=,|\.?(?:$|\s\p{Lu}))`;

/** Rules tried before the common ones, since parts of these tokens look like other tokens. */
const RULES: readonly Rule[] = [
  // A chapter before a verse: John 3:16. Together they look like a time or a score. The verse is read as a number.
  cardinal`(?<=\b(?:${data.books.join("|")}) )(?<number>\d{1,3}):(?=\d{1,3}(?!\d))`,
  words`{number} to {last} <- (?i:(?<=\b(?:ratio|odds|scores?|aspect|scale|rate|resolution|screen|won|lost|lead|led)\b[^.!?]{0,20})${RATIO}|${RATIO}(?= (?:ratio|odds|mix|scale|lead|win)\b))`,
  // Postal codes.
  rule("telephone", { mark: "groups" })`(?<![\d.,-])\d{5}-\d{4}(?![\d-])`,
  // House numbers, and points of the compass in names of roads.
  words`{number:figures} {text:expand} <- (?<![\p{L}\d])(?<number>\d{1,5}) (?<text>[NSEW])\.?(?= (?:\p{Lu}[\p{Ll}']+ ){1,2}${ROAD}\b| \d+(?:st|nd|rd|th) ${ROAD}\b)`,
  words`{number:figures} <- (?<![\p{L}\d.,$])(?<number>\d{4})(?= (?:\p{Lu}[\p{Ll}']+ ){1,3}${ROAD}\b)`,
  words`{text:expand} <- (?<=\b${ROAD}\.?,? )(?<text>[NS][EW])\b`,
  // Weekdays and dates.
  words`{text:expand} to {last:expand} <- \b(?<text>${WEEKDAY})\.?${DASH}(?<last>${WEEKDAY})(?:${STOP}|(?![\p{L}.]))`,
  // Sat and Sun are also words.
  words`{text:expand} <- \b(?<text>${WEEKDAY})\.?(?=,? (?:${MONTH} )?\d|\s?(?:&|and) (?:Sat|Sun)\b|\/${WEEKDAY}\b)`,
  words`{text:expand} <- (?<=\b(?:Fri|Sat)\.?,? (?:& |and )?)(?<text>Sat|Sun)\b(?:${STOP}|(?! \p{Ll}))`,
  words`{text:expand} <- (?<=\b${WEEKDAY}\/)(?<text>${WEEKDAY})\b`,
  date`\b${MONTH} ${DAY}(?:${DASH}${LAST_DAY})?(?:,? (?<year>\d{4}))?\b(?![:.,/]?\d|\s?[ap]\.?m\b)`,
  rule("date", { the: "the" }, isNamedDay)`${DAY_FIRST}`,
  date`${DAY_FIRST}`,
  date`\b${MONTH}(?:,? (?<year>\d{4})\b(?![.,]?\d))`,
  date`\b${MONTH}(?=${DASH}(?:${SHORT_MONTH.replace("?<month>", "?:")})\p{Ll}*(?!\p{L}))`,
  date`\b${SHORT_MONTH}\.(?=\s(?:\p{Ll}|\d))`,
  date`(?<=\b(?:in|since|until|of|by|last|next|this) )${SHORT_MONTH}${STOP}(?!\s\d)`,
  validDate`(?<=\b(?i:on|since|until|till|due|by|from|before|after) )(?<month>\d{1,2})\/(?<day>\d{1,2})(?![\d/%])`,
  // Feet and inches.
  feet`(?<![\d'])(?<number>\d{1,2})['\u2032](?=\s?\d{1,2}(?:\.\d+|[\u00bc-\u00be])?(?:["\u2033]|''))`,
  feet`${FEET}(?=${SIZED})|(?<=(?:x|\u00d7|by)\s?)${FEET}`,
  rule("verbatim", { said: "{number} inch" }, isUnquoted)`${INCHES}(?=${NAMED})`,
  rule("measure", { unit: "in" }, isUnquoted)`${INCHES}(?=${SIZED}|\s)`,
  // Times of day and durations: 18h45, 2h30, 2h 5m, 5m30s.
  minutes`(?<=\dh\s?)(?<number>\d{1,2})(?:\s?m(?:in)?)?(?![\p{L}\d])`,
  minutes`(?<![\d.,\p{L}])(?<number>\d+)\s?m(?:in)?\s?(?=\d{1,2}\s?s(?:ec)?(?![\p{L}\d]))`,
  seconds`(?<=\dm(?:in)?\s?)(?<number>\d{1,2})\s?s(?:ec)?(?![\p{L}\d])`,
  // Numbers with a slash.
  words`{number} out of {last} <- ${STROKE_START}(?:(?<number>[2-9]|10)\/(?<last>10)|(?<number>[2-9]|[1-9]\d|100)\/(?<last>100)|(?<number>5)\/(?<last>5))${STROKE_END}(?!${OF_WHOLE})`,
  words`{number} divided by {last} <- (?<![+\u2212-]\s?)${STROKE_START}(?<number>\d+)\/(?<last>\d+)(?=\s?=)`,
  // A blood pressure.
  words`{number} over {last} <- ${STROKE_START}(?<number>[7-9]\d|1\d\d|2[0-5]\d)\/(?<last>[4-9]\d|1[0-4]\d)${STROKE_END}`,
  words`and <- (?<=\b${WEEKDAY})\/(?=${WEEKDAY}\b)`,
  // Sizes.
  words`{number:figures} by <- (?<![\p{L}\d.,])(?<number>\d+(?:\.\d+)?)(?:\s?x\s?|\u00d7(?!10[${RAISED}\u207b^]))(?=\d)`,
  // Units after a number word, and rates without a number.
  measure`(?<=\d\s?(?:hundred|thousand|million|billion|trillion) |\^[-\u2212]?\d+ |[${RAISED}] )(?<unit>[kcm]?m|k?g|lbs?|ft|mi|mph|k?W|k?Wh|l|L|gal|oz|[nm]?s|k?J|Pa|[kMG]?Hz)(?<power>[\u00b2\u00b3])?(?:\/(?<per>s|h|kg|mol)(?<perPower>[\u00b2\u00b3])?)?(?![\p{L}\d'])`,
  words`{per:rate} <- (?<=\p{L}{2}|\dx?)\/(?<per>${PERIOD})\b`,
];

/** Rules tried after the common ones. */
const LAST_RULES: readonly Rule[] = [
  // Powers in superscript: x², 10⁻³.
  words`{power:power} <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})(?<power>\u207b?[${RAISED}]+)`,
  // Roman numerals of centuries, rulers, chapters and similar.
  ordinalNumeral`(?<![\p{L}\d'-])(?<numeral>${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries|Dynasty|dynasty|(?:\p{L}+ )?Olympi\p{L}+)\b))`,
  // A single I may be the pronoun, so it counts only before punctuation or certain words.
  ruler`(?<=\b(?:${
    data.rulers.join("|")
  }) )(?<numeral>${LONG}|IV|V|X|I(?=[,.;:)']| (?:of|was|had|reigned|ruled|died|and)\b|$))(?![\p{L}\d-])`,
  roman`(?<=\b(?:${matchEitherCase(data.counted)}) )(?<numeral>${NUMERAL})(?![\p{L}\d'-])`,
  roman`(?<=(?<!\p{L})\p{Lu}\p{L}+ )(?<numeral>${LONG})(?![\p{L}\d'-])`,
  // `Dr` is a road if it follows a name, otherwise a title.
  words`Drive <- (?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr${STOP}(?!\s+\p{Lu}\p{Ll})`,
  words`Doctor <- (?<!\p{L})Dr${STOP}`,
  // In an address, the full stop may be missing.
  words`{text:expand} <- ${ADDRESS}(?<text>${data.roads.replaceAll(" ", "|")})${ADDRESS_END}`,
  words`Street <- (?<=(?:\p{Lu}\p{Ll}+|\d(?:st|nd|rd|th))\s)St(?!\.\s+\p{Lu}\p{Ll})${STOP}`,
];

/**
 * `1984` is "nineteen eighty-four"; the first ten years of a millennium, and years outside of 1000 to 9999, are plain
 * numbers.
 */
function sayYear(year: number, numbers: NumberWords): string {
  const century = Math.floor(year / 100);
  const rest = year % 100;
  const isPlain = year < 1_000 || year > 9_999 || century % 10 === 0 && rest < 10;
  if (isPlain) return numbers.cardinal(year);
  const end = rest === 0 ? "hundred" : `${rest < 10 ? "oh " : ""}${numbers.cardinal(rest)}`;
  return `${numbers.cardinal(century)} ${end}`;
}

/** `1990` is "nineteen nineties". */
function sayDecade(year: number, numbers: NumberWords): string {
  const decade = year % 100;
  if (decade === 0) return `${sayYear(year, numbers)}s`;
  const tens = decade === 10 ? "tens" : numbers.cardinal(decade).replace(/y$/, "ies");
  return year < 100 ? tens : `${numbers.cardinal(Math.floor(year / 100))} ${tens}`;
}

/** Says the digits in a name, such as a model's; four digits are read like a year. */
function sayFigures(figures: string, numbers: NumberWords): string {
  if (figures.includes(".")) return numbers.cardinal(figures);
  if (/^0\d|^\d{5}/.test(figures)) return numbers.digits(figures);
  return figures.length === 4 ? sayYear(Number(figures), numbers) : numbers.cardinal(figures);
}

function sayTime(
  { hour, minute = "00", second = "00", half, zone }: Fields,
  numbers: NumberWords,
): string {
  const part = (figures: string) =>
    figures === "00" ? "oh oh" : (figures < "10" ? "oh " : "") + numbers.cardinal(Number(figures));
  const isFull = minute === "00" && second === "00";
  const parts = isFull ? [] : second === "00" ? [part(minute)] : [part(minute), part(second)];
  const end = [...(half ? [half.toUpperCase(), "M"] : []), ...(zone ? ["UTC"] : [])];
  const hours = numbers.cardinal(Number(hour));
  if (!isFull || half) return [hours, ...parts, ...end].join(" ");
  const full = Number(hour) > 12 ? `${hours} hundred` : `${hours} o'clock`;
  return [Number(hour) === 0 ? "midnight" : full, ...end].join(" ");
}

/** Changes the unit of an amount before a noun to the singular: "a five dollar bill". */
function inflectAttribute(said: string, noun: Noun, { before, after }: Context): string {
  const isAttribute = /\b(?:an?|another) $/i.test(before) && /^ (?!per\b)\p{Ll}{3}/u.test(after);
  const many = stripNumber(noun.inflect("2"));
  const one = stripNumber(noun.inflect("1"));
  return isAttribute && said.endsWith(many) ? said.slice(0, -many.length) + one : said;
}

const POWERS: Readonly<Record<string, string>> = { 2: "squared", 3: "cubed" };
const COMMON_WORDS = new Set(data.commonWords.split(" "));

/** Whether a text is written in capitals for emphasis, rather than being a list of abbreviations. */
function isShouted(text: string): boolean {
  if (/\p{Ll}/u.test(text)) return false;
  const words = text.replaceAll(/['\u2019]/g, "").match(/\p{Lu}+/gu) ?? [];
  const common = new Set(words.filter((word) => COMMON_WORDS.has(word.toLowerCase())));
  return words.length >= 3 && common.size >= 2;
}

export const ENGLISH: Language = {
  load: () => import("n2words/en-US"),
  data,
  isFraction,
  rules: RULES,
  lastRules: LAST_RULES,
  sayDay: (day, _, numbers) => numbers.ordinal(day),
  sayYear,
  finish: (said, text) =>
    isShouted(text) ? said.replaceAll(/\p{Lu}{2,}/gu, (word) => word.toLowerCase()) : said,
  verbalizer: ({ numbers, nouns }, common) => ({
    measure: (fields, context) =>
      inflectAttribute(common.measure(fields, context), nouns.unit(fields), context),
    money: (fields, context) =>
      inflectAttribute(
        common.money(fields, context),
        nouns.currencies.get(fields["currency"]!)![0]!,
        context,
      ),
    time: (fields) => sayTime(fields, numbers),
    date: ({ the, decade, ...fields }, context) => {
      if (decade) return sayDecade(Number(decade), numbers);
      const said = common.date(fields, context);
      return the ? said.replace(/^(\w+) ([^,]+)/, "the $2 of $1") : said;
    },
    roman: ({ the, ...fields }, context) => `${the ? "the " : ""}${common.roman(fields, context)}`,
  }),
  formatters: ({ numbers, nouns }) => ({
    year: (text) => sayYear(Number(text), numbers),
    figures: (text) => sayFigures(text, numbers),
    version: (text) => text.split(".").map((part) => sayFigures(part, numbers)).join(" point "),
    name: (text) => {
      const said = text.replaceAll(/-(?=\d)|(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, " ")
        .replaceAll(/\d+(?:\.\d+)?/g, (figures) => sayFigures(figures, numbers));
      // A plural: B-52s.
      return /\d\ds$/.test(text) ? said.replace(/y s$/, "ies").replace(/(x?) s$/, "$1s") : said;
    },
    code: (text) =>
      text.toUpperCase().match(/[\p{L}\d]/gu)!
        .map((sign) => /\d/.test(sign) ? numbers.say(sign) : sign).join(" "),
    lowered: (text) => numbers.cardinal(Number(text.normalize("NFKC"))),
    power: (text) => {
      const [, minus, power = ""] = /^([-\u2212]?)(.*)$/.exec(text.normalize("NFKC"))!;
      const said = /\d/.test(power) ? numbers.say(power) : power;
      return POWERS[minus + power] ?? `to the power of ${minus && "minus "}${said}`;
    },
    rate: (text) => nouns.rate(text),
  }),
};
