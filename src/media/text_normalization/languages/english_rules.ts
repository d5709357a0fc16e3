/**
 * Recognizes what English texts have in addition to the tokens of all languages.
 *
 * @module
 */
import { STOP } from "../common_rules.ts";
import { validDate } from "../date_rules.ts";
import { matchAny } from "../numbers.ts";
import { type Condition, type Rule, rule, tag, words } from "../token.ts";
import data from "./english.json" with { type: "json" };

const { cardinal, date, measure, roman } = tag;
const { raw } = String;
const feet = rule("measure", { unit: "ft" });
const minutes = rule("measure", { unit: "min" });
const seconds = rule("measure", { unit: "s" });
const ordinalNumeral = rule("roman", { mark: "ordinal" });
const ruler = rule("roman", { mark: "ordinal", the: "the" });

/** Names of months in any case, except those that are also words. */
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

/** Whether a date reads "the third of May" rather than "May third"; the token may follow "the". */
const isNamedDay: Condition = ({ text, year }, { before }) =>
  year === undefined || /^the | of /.test(text!) || / of $|the $/.test(before);

/** Nouns that follow a size in inches: a 27" screen. */
const NAMED = raw`\s?(?i:screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b`;
/** What may follow a length. */
const SIZED =
  raw`(?:["\u2033]?\s?(?i:[x\u00d7]\s?\d|(?:by|tall|high|wide|long|deep|thick)\b)|["\u2033]?${NAMED}|[.,;:!?)]|\s*$)`;
const INCHES = raw`(?<![\d.,])(?<number>\d+(?:\.\d+)?)["\u2033]`;
const FEET =
  raw`(?<!(?:^|\s)'[^']*)(?<![\d.,'])(?<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)['\u2032]`;

/** Whether no quotation is open: if none is, a quotation mark after a digit stands for inches. */
const isUnquoted: Condition = (_, { before }) => {
  let isOpen = false;
  for (const { index } of before.matchAll(/"/g)) {
    if (isOpen || !/\d$/.test(before.slice(0, index))) isOpen = !isOpen;
  }
  return !isOpen;
};

/** Denominators with a usual name; others above ten are rare. */
const PART = /^(?:[2-9]|10|12|16|20|32|64|100|1000)$/;

/** Whether two numbers with a slash are a fraction, unlike 9/11, 24/7 and 50/50. */
export function isFraction(...[fields, { before, after }]: Parameters<Condition>): boolean {
  const { numerator: above, denominator: below = "" } = fields;
  const isMixed = Number(below) <= 4 && Number(above) % Number(below) !== 0;
  const isWhole = /^\s?=/.test(after) && !/[+\u2212-]\s?$/.test(before);
  return PART.test(below) && !isWhole && (Number(above) < Number(below) || isMixed);
}

/** What may follow a slash without a number before it. */
const PERIOD = matchAny([...Object.keys(data.periods), "s", "sec", "min", "h", "hr", "wk", "yr"]);
const RATIO = raw`(?<![\d:.])(?<number>\d{1,4}):(?<last>\d{1,4})(?![\d:]|[.,]\d)`;
/** Not preceded or followed by the rest of a longer number, name or fraction. */
const STROKE_START = raw`(?<![\d/.,\p{L}-]|\d )`;
const STROKE_END = raw`(?![\d/]|[.,]\d)`;
/** Words after which a tenth or a hundredth is meant, rather than a grade. */
const OF_WHOLE = " (?:of|an?|mile|inch|second|cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|pound)\\b";
const RAISED = raw`\u2070\u00b9\u00b2\u00b3\u2074-\u2079`;

const titled = (words: readonly string[]) =>
  words.map((word) => `[${word[0]}${word[0]!.toUpperCase()}]${word.slice(1)}`).join("|");
/** Roman numerals up to 89. */
const NUMERAL = raw`(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})`;
/** Roman numerals of several letters, except those that are mostly sizes or abbreviations. */
const LONG = raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;

/** Preceded by a house number and the name of a road. */
const ADDRESS =
  raw`(?<=\b\d+[a-z]?\s(?:[NSEW]\.?\s)?(?:\p{Lu}[\p{Ll}']+\s){1,3}|\d(?:st|nd|rd|th)\s)`;
const ROAD = `(?:${data.roads.replaceAll(" ", "|")}|Street|Avenue|Road|Drive|Lane|Boulevard)`;
const ADDRESS_END = raw`(?=,|\.?(?:$|\s\p{Lu}))`;

/** Rules tried before the common ones, since parts of these tokens look like other tokens. */
export const ENGLISH_RULES: readonly Rule[] = [
  // Chapter and verse look like a time or a score; the verse is a number of its own.
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
  // Feet, and inches.
  feet`(?<![\d'])(?<number>\d{1,2})['\u2032](?=\s?\d{1,2}(?:\.\d+|[\u00bc-\u00be])?(?:["\u2033]|''))`,
  feet`${FEET}(?=${SIZED})|(?<=(?:x|\u00d7|by)\s?)${FEET}`,
  rule("verbatim", { said: "{number} inch" }, isUnquoted)`${INCHES}(?=${NAMED})`,
  rule("measure", { unit: "in" }, isUnquoted)`${INCHES}(?=${SIZED}|\s)`,
  // Times of day and durations: 18h45, 2h30, 2h 5m, 5m30s.
  minutes`(?<=\dh\s?)(?<number>\d{1,2})(?:\s?m(?:in)?)?(?![\p{L}\d])`,
  minutes`(?<![\d.,\p{L}])(?<number>\d+)\s?m(?:in)?\s?(?=\d{1,2}\s?s(?:ec)?(?![\p{L}\d]))`,
  seconds`(?<=\dm(?:in)?\s?)(?<number>\d{1,2})\s?s(?:ec)?(?![\p{L}\d])`,
  // Strokes.
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
export const LAST_ENGLISH_RULES: readonly Rule[] = [
  // Powers: x², 10⁻³, 2^n.
  words`{power:power} <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})(?<power>\u207b?[${RAISED}]+)`,
  // Roman numerals of centuries, rulers, chapters and similar.
  ordinalNumeral`(?<![\p{L}\d'-])(?<numeral>${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries|Dynasty|dynasty|(?:\p{L}+ )?Olympi\p{L}+)\b))`,
  // Alone, I is a word.
  ruler`(?<=\b(?:${
    data.rulers.join("|")
  }) )(?<numeral>${LONG}|IV|V|X|I(?=[,.;:)']| (?:of|was|had|reigned|ruled|died|and)\b|$))(?![\p{L}\d-])`,
  roman`(?<=\b(?:${titled(data.counted)}) )(?<numeral>${NUMERAL})(?![\p{L}\d'-])`,
  roman`(?<=(?<!\p{L})\p{Lu}\p{L}+ )(?<numeral>${LONG})(?![\p{L}\d'-])`,
  // A road if it follows a name, otherwise a title.
  words`Drive <- (?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr${STOP}(?!\s+\p{Lu}\p{Ll})`,
  words`Doctor <- (?<!\p{L})Dr${STOP}`,
  // In an address, the full stop may be missing.
  words`{text:expand} <- ${ADDRESS}(?<text>${data.roads.replaceAll(" ", "|")})${ADDRESS_END}`,
  words`Street <- (?<=(?:\p{Lu}\p{Ll}+|\d(?:st|nd|rd|th))\s)St(?!\.\s+\p{Lu}\p{Ll})${STOP}`,
];
