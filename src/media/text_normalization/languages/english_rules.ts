/**
 * Recognizes what English texts have beside the tokens of all languages.
 *
 * @module
 */
import { STOP } from "../abbreviations.ts";
import { isDate } from "../date_rules.ts";
import type { Nouns } from "../nouns.ts";
import { matchAny } from "../numbers.ts";
import { type Context, type Fields, type Rule, rule, words, wordsIf } from "../token.ts";
import data from "./english.json" with { type: "json" };

const ordinal = rule("ordinal");
const cardinal = rule("cardinal");
const date = rule("date");
const time = rule("time");
const telephone = rule("telephone");
const measure = rule("measure");
const fraction = rule("fraction");
const roman = rule("roman");
const feet = rule("measure", { unit: "ft" });
const minutes = rule("measure", { unit: "min" });
const seconds = rule("measure", { unit: "s" });
const validDate = rule("date", {}, isDate);
const ordinalNumeral = rule("roman", { mark: "ordinal" });
const ruler = rule("roman", { mark: "ordinal", the: "the" });

/** Without a full stop in it, one after it is the sentence's. */
const HALF = String.raw`(?<half>[ap])(?:\.m(?:\.(?=\s*[^\s"')])|(?=\.|$))|m\b)`;
/** Chapters and verses look like times and scores. */
const BOOKS = data.books.join("|");
const ERA = String.raw`(?<era>B\.C\.(?:E\.)?|A\.D\.|C\.E\.|(?:AD|BCE?|CE)(?![\p{L}\d]))`;

const MONTH =
  "(?<month>January|February|March|April|May|June|July|August|September|October|November|December|" +
  String.raw`(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?:${STOP}|(?![a-z.])))`;
const SHORT_MONTH = "(?<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)";
const day = (name: string) => String.raw`(?<${name}>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?`;
const DASH = String.raw`\s?[-\u2013]\s?`;
const WEEKDAY = "(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)";
const DAY_FIRST = String.raw`(?:the )?(?<![\w.,:/$-])${
  day("day")
}(?: of)? ${MONTH}(?! \d{1,2}\b(?!:))(?:,? (?<year>\d{4})\b)?`;

/** Whether a date is "the third of May" rather than "May third"; "the" may stand before the token. */
const isNamedDay = ({ text, year }: Fields, { before }: Context): boolean =>
  year === undefined || /^the | of /.test(text!) || / of $|the $/.test(before);

/** What is told by its size when it follows a length. */
const SIZED =
  /^(?:["\u2033]?\s?(?:[x\u00d7]|by|tall|high|wide|long|deep|thick|screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b|[.,;:!?)]|\s*$)/i;
/** A noun behind the inches that it has: a 27" screen. */
const NAMED = /^\s?(?:screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b/i;

/** Whether a quotation is open. Behind a figure, where none is, the sign stands for inches. */
function isInQuotes(before: string): boolean {
  let isOpen = false;
  for (const { index } of before.matchAll(/"/g)) {
    if (isOpen || !/\d$/.test(before.slice(0, index))) isOpen = !isOpen;
  }
  return isOpen;
}

const isFeet = (_: Fields, { before, after }: Context): boolean =>
  (SIZED.test(after) || /(?:x|\u00d7|by)\s?$/.test(before)) && !/(?:^|\s)'[^']*$/.test(before);

const isInches = (_: Fields, { before, after }: Context): boolean =>
  !isInQuotes(before) && (SIZED.test(after) || /^\s/.test(after));

const INCHES = String.raw`(?<![\d.,])(?<number>\d+(?:\.\d+)?)["\u2033]`;

/** Parts of a whole that have a name; more than the first ten are rare. */
const PART = /^(?:[2-9]|10|12|16|20|32|64|100|1000)$/;
const OF_WHOLE = /^ (?:of|an?|mile|inch|second|cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|pound)\b/;

/** Whether two numbers with a stroke between them are a grade or a vote: `7/10`. */
function isGrade({ whole, numerator, denominator }: Fields, { after }: Context): boolean {
  const got = Number(numerator);
  const all = Number(denominator);
  return whole === undefined && !OF_WHOLE.test(after) && got > 1 && got <= all &&
    (all === 10 || all === 100 || all === 5 && got === 5);
}

/** Whether two numbers with a stroke between them are part of a whole, unlike 9/11, 24/7 and 50/50. */
export function isFraction(fields: Fields, context: Context): boolean {
  if (isGrade(fields, context) || /^\s?=/.test(context.after)) return false;
  const { numerator: above, denominator: below = "" } = fields;
  const isMixed = Number(below) <= 4 && Number(above) % Number(below) !== 0;
  return PART.test(below) && (Number(above) < Number(below) || isMixed);
}

const isDivision = ({ whole }: Fields, { after }: Context): boolean =>
  whole === undefined && /^\s?=/.test(after);

function isBloodPressure({ numerator, denominator, whole }: Fields): boolean {
  const above = Number(numerator);
  const below = Number(denominator);
  return whole === undefined && above >= 70 && above < 260 && below >= 40 && above > below;
}

const STROKE = String
  .raw`(?<![\d/.,\p{L}-])(?:(?<whole>\d+)[ -])?(?<numerator>[1-9]\d?\d?)\/(?<denominator>[1-9]\d{0,3})(?![\d/]|[.,]\d)`;
const RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const POWER_OF_TEN = String.raw`10[${RAISED}\u207b^]`;

const LOWERED = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089";

const titled = (words: readonly string[]) =>
  words.map((word) => `[${word[0]}${word[0]!.toUpperCase()}]${word.slice(1)}`).join("|");
/** Up to 89. */
const NUMERAL = String.raw`(?=[IVXL])L?X{0,3}(?:IX|IV|V?I{0,3})`;
/** More than one letter; not those that are sizes and short forms more often. */
const LONG = String.raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;
const RULERS = data.rulers.join("|");

/** After the number of a house and the name of a road. */
const ADDRESS = String.raw`(?<=\b\d+[a-z]?\s(?:\p{Lu}[\p{Ll}']+\s){1,2}|\d(?:st|nd|rd|th)\s)`;
const ADDRESS_END = String.raw`(?=,|$|\n|\.?\s\p{Lu})`;
const SPELLED = String.raw`(?:\.(?=\s*[^\s"')\]])|(?=\.)|(?![\p{L}\d]))`;

/** What is tried before the common rules, since it looks like a part of what they read. */
export function englishRules(nouns: Nouns): Rule[] {
  const period = `(?<per>${
    matchAny([...Object.keys(nouns.periods), "s", "sec", "min", "h", "hr"])
  })`;
  return [
    // Times, eras and proportions.
    words`{year:year} {era:spell} <- (?<![\d.,$])(?<year>\d{1,5})\s?${ERA}`,
    words`{era:spell} {year:year} <- \b(?<era>AD|A\.D\.|BC) ?(?<year>\d{1,4})\b(?![.,]?\d)`,
    words`at <- (?<=\d{4}-\d\d-\d\d)[T ](?=\d\d:\d\d)`,
    time`(?<=-\d\d[T ])(?<hour>\d\d):(?<minute>\d\d)(?::(?<second>\d\d)(?:\.\d+)?)?(?<zone>Z?)(?!\d)`,
    time`(?i:(?<![\d:.])(?<hour>0?[1-9]|1[0-2])(?::(?<minute>[0-5]\d)(?::(?<second>[0-5]\d))?)?\s?${HALF})`,
    // The verse is a number of its own.
    cardinal`(?<=\b(?:${BOOKS}) )(?<number>\d{1,3}):(?=\d{1,3}(?!\d))`,
    words`{number} to {last} <- (?i:(?<=\b(?:ratio|odds|scores?|aspect|scale|rate|resolution|screen|won|lost|lead|led)\b[^.!?]{0,20})(?<![\d:.])(?<number>\d{1,4}):(?<last>\d{1,4})(?![\d:]|[.,]\d))`,
    words`{text} minus <- \b(?<text>GMT|UTC)\s?[-\u2212]\s?(?=\d)`,
    cardinal`(?<=\b(?:GMT|UTC)\s?[+\-\u2212]\s?)(?<number>\d{1,2})(?::00)?(?![:\d])`,
    // Telephone numbers of North America, and codes that are read digit by digit.
    telephone`(?<![\d.,-])(?:1[ .-])?\(?\d{3}\)?[ .-]?(?<=[ .)-])\d{3}[ .-]\d{4}(?![\d-])`,
    telephone`(?<![\d.,-])\d{3}-\d{4}(?![\d-])`,
    telephone`(?<![\p{L}\d.,-])[2-9]\d{6}(?!000)\d{3}(?![\d-]|[.,]\d)`,
    words`one eight hundred <- (?<![\p{L}\d])1-800-(?=[A-Z])`,
    telephone`(?<![\p{L}\d])1-8(?<last>\d)\k<last>-(?=[A-Z])`,
    telephone`(?i:(?<=\b(?:call|dial)(?:ed|ing)? )\d{3}\b(?![ .,-]?\d))`,
    // Postal codes.
    rule("telephone", { mark: "groups" })`(?<![\d.,-])\d{5}-\d{4}(?![\d-])`,
    telephone`(?<=\b[A-Z]{2} |\b(?i:zip(?: code)?):? (?:is )?)\d{5}\b(?![.,-]\d)`,
    // Weekdays and dates.
    words`{text:weekday} to {last:weekday} <- \b(?<text>${WEEKDAY})\.?${DASH}(?<last>${WEEKDAY})(?:${STOP}|(?![\p{L}.]))`,
    // Sat and Sun are also words.
    words`{text:weekday} <- \b(?<text>${WEEKDAY})\.?(?=,? (?:${MONTH} )?\d|\s?(?:&|and) (?:Sat|Sun)\b)`,
    words`{text:weekday} <- (?<=\b(?:Fri|Sat)\.?,? (?:& |and )?)(?<text>Sat|Sun)\b(?:${STOP}|(?! \p{Ll}))`,
    words`{text:weekday} <- \b(?<text>Mon|Tues?|Wed|Thurs?|Fri)\.(?=\s?\S)`,
    date`\b${MONTH} ${day("day")}(?:${DASH}${
      day("lastDay")
    })?(?:,? (?<year>\d{4}))?\b(?![:.,/]?\d|\s?[ap]\.?m\b)`,
    rule("date", { the: "the" }, isNamedDay)`${DAY_FIRST}`,
    date`${DAY_FIRST}`,
    date`\b${MONTH}(?:,? (?<year>\d{4})\b(?![.,]?\d))`,
    date`\b${MONTH}(?=${DASH}(?:${SHORT_MONTH.replace("?<month>", "?:")})\p{Ll}*(?!\p{L}))`,
    date`(?<=${SHORT_MONTH.replace("?<month>", "?:")}\p{Ll}*\.?${DASH})${MONTH}(?!\p{L})`,
    date`(?<=\b(?:in|since|until|of|by|last|next|this) )${SHORT_MONTH}${STOP}(?!\s\d)`,
    date`\b${SHORT_MONTH}\.(?=\s(?:\p{Ll}|\d))`,
    validDate`(?<=\b(?i:on|since|until|till|due|by|from|before|after) )(?<month>\d{1,2})\/(?<day>\d{1,2})(?![\d/%])`,
    // Feet, and inches behind them.
    feet`(?<![\d'])(?<number>\d{1,2})['\u2032](?=\s?\d{1,2}(?:\.\d+|[\u00bc-\u00be])?(?:["\u2033]|''))`,
    cardinal`(?<=\d['\u2032]\s?)(?<number>\d{1,2}(?:\.\d+)?)(?:["\u2033]|'')`,
    words`{number} and a half <- (?<=\d['\u2032]\s?)(?<number>\d{1,2})\u00bd(?:["\u2033]|'')`,
    fraction`(?<=\d['\u2032]\s?)(?<whole>\d{1,2})(?<vulgar>[\u00bc\u00be])(?:["\u2033]|'')`,
    rule("measure", { unit: "ft" }, isFeet)`(?<![\d.,'])(?<number>\d+(?:\.\d+)?)['\u2032]`,
    wordsIf((_, { before, after }) =>
      !isInQuotes(before) && NAMED.test(after)
    )`{number} inch <- ${INCHES}`,
    rule("measure", { unit: "in" }, isInches)`${INCHES}`,
    measure`(?<=\d\s?(?:ft|feet|foot)\.?,? )(?<number>\d{1,2}(?:\.\d+)?)\s?(?<unit>in)\b(?:\.(?=\s\p{Ll}))?`,
    words`inch <- (?<=\/\d{1,2})["\u2033](?=\s|$)`,
    // Times of day and durations: 18h45, 2h30, 2h 5m, 5m30s.
    time`(?<![\d.,\p{L}])(?<hour>1\d|2[0-3])h(?<minute>[0-5]\d)(?![\p{L}\d])`,
    measure`(?<![\d.,\p{L}])(?<number>\d+)\s?(?<unit>h)\s?(?=(?:[0-5]\d|\d{1,2}\s?m(?:in)?)(?![\p{L}\d]))`,
    minutes`(?<=\dh\s?)(?<number>\d{1,2})(?:\s?m(?:in)?)?(?![\p{L}\d])`,
    minutes`(?<![\d.,\p{L}])(?<number>\d+)\s?m(?:in)?\s?(?=\d{1,2}\s?s(?:ec)?(?![\p{L}\d]))`,
    seconds`(?<=\dm(?:in)?\s?)(?<number>\d{1,2})\s?s(?:ec)?(?![\p{L}\d])`,
    // Great numbers in short.
    words`four oh one K <- (?i:(?<![\p{L}\d])401\(?k\)?(?!\w))`,
    cardinal`(?<![\w.,])(?<number>\d{2,}|\d+\.\d+)(?<scale>k|K)(?![\p{L}\d])`,
    cardinal`(?<![\w.,])(?<number>\d+(?:\.\d+)?)\s?(?<scale>M|bn|mn)(?![\p{L}\d\/])`,
    // Strokes.
    wordsIf(isGrade)`{numerator} out of {denominator} <- ${STROKE}`,
    wordsIf(isDivision)`{numerator} divided by {denominator} <- ${STROKE}`,
    wordsIf(isBloodPressure)`{numerator} over {denominator} <- ${STROKE}`,
    words`divided by <- (?<=\d\)?) \/ (?=\(?\d)`,
    words`<- (?<=\d)\/(?=\d)`,
    // An offer: 2/$1.
    words`for <- (?<=(?<![\d.,/])\d)\/(?=[$\u20ac\u00a3]\d)`,
    // Codes, powers of ten, and sizes.
    words`zero x {text:code} <- (?i:(?<![\p{L}\d])0x(?<text>[\da-f]{1,16})(?![\p{L}\d]))`,
    words`times <- (?<=\d)\s?\u00d7\s?(?=${POWER_OF_TEN})`,
    words`{number:figures} by <- (?<![\p{L}\d.,])(?<number>\d+(?:\.\d+)?)(?:\s?x\s?|\u00d7(?!${POWER_OF_TEN}))(?=\d)`,
    words`by <- (?<=['"\u2032\u2033\d]\s?|\d\s?\p{L}{1,2}\s)x(?=\s?\d)`,
    words`{number} times <- (?<![\p{L}\d.,])(?<number>\d+(?:\.\d+)?)x(?=\s+(?:faster|slower|more|less|better|bigger|larger|smaller|higher|longer|cheaper|as|a|an|per|daily|weekly|monthly)\b|\/\p{L})`,
    // Rates without a number.
    words`{per:rate} <- (?<=\p{L}{2}|\dx?)\/${period}\b`,
    measure`(?<![\p{L}\d/])(?<unit>km|mi|m|ft|[kMG]b|[kMG]B)\/(?<per>h|s|sec|min|day)(?![\p{L}\d])`,
  ];
}

/** What is tried after the common rules. */
export const LAST_ENGLISH_RULES: readonly Rule[] = [
  // Decades and years.
  words`{year:decade} <- (?<![\d.,$])(?<year>(?:1[1-9]|20)\d0)['\u2019]?s\b`,
  words`{year:decade} <- (?<![\d.,$])['\u2019]?(?<year>[1-9]0)['\u2019]?s\b`,
  cardinal`(?<=^|[\s(])['\u2019](?<number>\d\d)\b(?!['\u2019"])`,
  wordsIf(({ year, last }) =>
    last! > year!.slice(2)
  )`{year:year} to {last} <- (?<![\d.,$/])(?<year>(?:1[1-9]|20)\d\d)${DASH}(?<last>\d\d)(?![\d.,/:-]|\s?[=%])`,
  date`(?<![\d.,$+])(?<year>(?:1[1-9]|20)\d\d)(?![.,]?\d)`,
  date`(?i:(?<=\b(?:in|since|until|till|by|year|AD|before|after|from|around|circa) )(?<year>10\d\d)\b(?![.,]\d))`,
  // Ordinals.
  ordinal`(?i:(?<![\d.,\p{L}])(?<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)(?![\p{L}\d]))`,
  // Powers of ten: 6.02e23, 1e-5, but not 12e4567 or other codes.
  words`{number} times ten to the {power} <- (?i:(?<![\p{L}\d.])(?<number>\d(?:\.\d+)?|\d+\.\d+)e\+?(?<power>\d{1,3})(?![\p{L}\d]))`,
  words`{number} times ten to the minus {power} <- (?i:(?<![\p{L}\d.])(?<number>\d+(?:\.\d+)?)e-(?<power>\d{1,3})(?![\p{L}\d]))`,
  // Hashes and identifiers.
  words`{text:spell} <- (?<![\p{L}\d])(?<text>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9a-f]*\d[0-9a-f]*[a-f][0-9a-f]*\d|[0-9a-f]*[a-f][0-9a-f]*\d[0-9a-f]*[a-f])[0-9a-f]{7,64})(?![\p{L}\d])`,
  // Powers.
  words`squared <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})\u00b2(?![${RAISED}])`,
  words`cubed <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})\u00b3(?![${RAISED}])`,
  words`to the power of minus {power:unicode} <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})\u207b(?<power>[${RAISED}]+)`,
  words`to the power of {power:unicode} <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})(?<power>[${RAISED}]+)`,
  words`{text:unicode} <- (?<text>[${LOWERED}]+)`,
  words`squared <- (?<=[\p{L}\d)\]])\^[({]?2[)}]?(?!\.?\d)`,
  words`cubed <- (?<=[\p{L}\d)\]])\^[({]?3[)}]?(?!\.?\d)`,
  words`to the power of {power} <- (?<=[\p{L}\d)\]])\^[({]?(?<power>\d+)[)}]?`,
  words`to the power of minus {power} <- (?<=[\p{L}\d)\]])\^[({]?[-\u2212](?<power>\d+)[)}]?`,
  words`to the power of {text} <- (?<=[\p{L}\d)\]])\^[({]?(?<text>\p{L})[)}]?(?!\p{L})`,
  // Versions: v2.5.1, v2.0.0-rc.1.
  words`{mark} {text:version} <- (?<![\p{L}\d.])(?<mark>[vV])(?<text>\d+(?:\.\d+)+)(?![\p{L}\d])`,
  words`R C <- (?<=\d\.\d+\.\d+|[vV]\d+\.\d+)-rc\.?(?!\p{L})`,
  words`{text} <- (?<=\d\.\d+\.\d+|[vV]\d+\.\d+)-(?<text>\p{Ll}+)\.?(?!\p{L})`,
  words`{number} point {last} <- (?<=\b[vV]ersion )(?<number>\d+)\.(?<last>[1-9]\d+)(?![\d.])`,
  words`{number:figures} <- (?<=\d\s?[x\u00d7]\s?)(?<number>\d{4})(?![\d.])`,
  words`{text} {number:figures} <- (?<![\p{L}\d.])(?<text>\p{Lu})\.(?<number>\d{2,4})(?![\d.])`,
  // Names with figures: GPT-4o, Qwen2.5-7B, DDR5-5600, H2O, 4K, 221B.
  words`{text:name} <- (?<![\p{L}\d])(?!\p{Ll}{2,}-(?!\d+(?:\.\d+)?-\d+(?:\.\d+)?\p{Ll}))(?<text>\p{L}{1,12}(?:-?\d+(?:\.\d+)?\p{L}{0,8})(?:-?\d+(?:\.\d+)?\p{L}{0,8}|-\p{L}\d+){0,6})(?![\p{L}\d])`,
  words`{text:name} <- (?<![\p{L}\d.,])(?<text>\d{1,4}(?:\.\d+)?\p{L}{1,3}\d{0,3})(?![\p{L}\d'\u2019])`,
  words`number <- (?:#|\u2116)\s?(?=\d)`,
  words`section <- \u00a7+\s?(?=\d)`,
  words`about <- (?<!\w)~(?=[$\u20ac\u00a3]?\d)`,
  words`times <- (?<=\d)\s*\*\s*(?=\d)`,
  words`plus <- (?<=\d)\+(?!\S)`,
  words`plus <- (?<![\p{L}\d.)\]])\+(?=\.?\d)`,
  // Numerals of centuries, rulers, chapters and the like.
  ordinalNumeral`(?<![\p{L}\d'-])(?<numeral>${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries)\b))`,
  // Alone, I is a word.
  ruler`(?<=\b(?:${RULERS}) )(?<numeral>${LONG}|IV|V|X|I(?=[,.;:)']| (?:of|was|had|reigned|ruled|died|and)\b|$))(?![\p{L}\d-])`,
  roman`(?<=\b(?:${titled(data.counted)}) )(?<numeral>${NUMERAL})(?![\p{L}\d'-])`,
  roman`(?<=(?<!\p{L})\p{Lu}\p{L}+ )(?<numeral>${LONG})(?![\p{L}\d'-])`,
  // Titles and roads.
  words`P H D <- (?<!\p{L})Ph\.?\s?D\b(?:\.(?=\s*[^\s"')]))?`,
  // After a name a road, elsewhere somebody's title.
  words`Drive <- (?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr${STOP}(?!\s+\p{Lu}\p{Ll})`,
  words`Doctor <- (?<!\p{L})Dr${STOP}`,
  // In an address a full stop may be left out.
  words`Street <- ${ADDRESS}St${ADDRESS_END}`,
  words`Drive <- ${ADDRESS}Dr${ADDRESS_END}`,
  words`{text:abbreviation} <- ${ADDRESS}(?<text>Ave|Rd|Blvd|Ln|Hwy)${ADDRESS_END}`,
  // AT&T, R&D.
  words`{text:spell} and {last:spell} <- (?<![\p{L}\d&])(?<text>\p{Lu}{1,4})&(?<last>\p{Lu}{1,3})(?![\p{L}\d&])`,
  // A grade; with a plus the sign is read.
  words`minus <- (?<=(?:^|[\s("])[A-F])-(?=\s(?:student|grade|average|in|on|for)\b|[,;)]|\.(?:\s|$))`,
  // The full stop of a unit within a sentence: 16 oz. of it.
  words`<- (?<=(?:\d\s?|\d\/)(?:lbs?|oz|gal|qt|pt|yrs?|mos?|wks?|hrs?|mins?|secs?|ft|yds?|mi|tsp|tbsp))\.(?=\s+[\p{Ll}\d=+(&]|[;,])`,
  words`divided by <- (?<=(?<![\p{L}\d])\p{L}) \/ (?=\p{L}(?![\p{L}\d]))`,
  words`for example, <- (?<!\p{L})e\.\s?g\.,?`,
  words`that is, <- (?<!\p{L})i\.\s?e\.,?`,
  // Before a name a saint, after one a street.
  words`Street <- (?<=(?:\p{Lu}\p{Ll}+|\d(?:st|nd|rd|th))\s)St(?!\.\s+\p{Lu}\p{Ll})${STOP}`,
  words`Saint <- (?<!\p{L})St\.(?=\s+\p{Lu})`,
  // Not an answer.
  words`number <- (?:(?<=\d(?:,| and| or) )|(?<!\b(?:said|says?|answer(?:ed|s)?|is|was|and|or) ))(?<!\p{L})no\.(?=\s*\d)`,
  words`versus <- (?<![\p{L}\d])vs(?![\p{L}\d.])`,
  words`with <- (?<!\p{L})w\/(?=\s?\p{L})`,
  // U.S. and b.i.d., letter by letter.
  words`{text:initials} <- (?<![\p{L}\d.])(?<text>\p{L}(?:\.\p{L})+)${SPELLED}`,
  // A link to a name, and a topic.
  words`at <- (?<=\w)@(?=\w)`,
  words`at <- (?<!\S)@(?=\w)`,
  words`hashtag <- (?<!\S)#(?=\p{L})`,
  words`dot <- (?<!\S)\.(?=\p{L})`,
  // Comparisons and arrows.
  words`less than <- (?<=[\w)|\]])(?:\s+<\s+|<)(?=[\w($.-])`,
  words`greater than <- (?<=[\w)|\]])(?:\s+>\s+|>)(?=[\w($.-])`,
  words`less than <- (?<!\S)<(?=[$]?\d)`,
  words`more than <- (?<!\S)>(?=[$]?\d)`,
  words`minus <- (?<=[\p{L}\d)]\s)-(?=\s\d+(?:\.\d+)?\s?=)`,
  // Between letters of short forms nothing is said.
  words`<- (?<=(?<!\p{L})\p{Lu}+)\/(?=\p{Lu}+(?!\p{L}))`,
  words`or <- (?<=\p{L})\/(?=\p{L})`,
];
