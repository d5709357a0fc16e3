/**
 * Recognizes what English texts have beside the tokens of all languages.
 *
 * @module
 */
import { STOP } from "../common_rules.ts";
import { validDate } from "../date_rules.ts";
import { matchAny } from "../numbers.ts";
import { type Condition, type Rule, rule, tag, words } from "../token.ts";
import data from "./english.json" with { type: "json" };

const { cardinal, date, fraction, measure, ordinal, roman, telephone, time } = tag;
const { raw } = String;
const feet = rule("measure", { unit: "ft" });
const minutes = rule("measure", { unit: "min" });
const seconds = rule("measure", { unit: "s" });
const ordinalNumeral = rule("roman", { mark: "ordinal" });
const ruler = rule("roman", { mark: "ordinal", the: "the" });

/** In capitals or not, but for those that are words too. */
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

/** Whether a date is "the third of May" rather than "May third"; "the" may stand before the token. */
const isNamedDay: Condition = ({ text, year }, { before }) =>
  year === undefined || /^the | of /.test(text!) || / of $|the $/.test(before);

/** A noun behind the inches that it has: a 27" screen. */
const NAMED = raw`\s?(?i:screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b`;
/** What follows a length. */
const SIZED =
  raw`(?:["\u2033]?\s?(?i:[x\u00d7]|by|tall|high|wide|long|deep|thick)\b|["\u2033]?${NAMED}|[.,;:!?)]|\s*$)`;
const INCHES = raw`(?<![\d.,])(?<number>\d+(?:\.\d+)?)["\u2033]`;
const FEET = raw`(?<!(?:^|\s)'[^']*)(?<![\d.,'])(?<number>\d+(?:\.\d+)?)['\u2032]`;

/** Whether no quotation is open. Behind a figure, where none is, the sign stands for inches. */
const isUnquoted: Condition = (_, { before }) => {
  let isOpen = false;
  for (const { index } of before.matchAll(/"/g)) {
    if (isOpen || !/\d$/.test(before.slice(0, index))) isOpen = !isOpen;
  }
  return !isOpen;
};

/** Parts of a whole that have a name; more than the first ten are rare. */
const PART = /^(?:[2-9]|10|12|16|20|32|64|100|1000)$/;

/** Whether two numbers with a stroke between them are part of a whole, unlike 9/11, 24/7 and 50/50. */
export function isFraction(...[fields, { after }]: Parameters<Condition>): boolean {
  const { numerator: above, denominator: below = "" } = fields;
  const isMixed = Number(below) <= 4 && Number(above) % Number(below) !== 0;
  return PART.test(below) && !/^\s?=/.test(after) && (Number(above) < Number(below) || isMixed);
}

/** What may stand behind a stroke without a number before it. */
const PERIOD = matchAny([...Object.keys(data.periods), "s", "sec", "min", "h", "hr", "wk", "yr"]);
const RATIO = raw`(?<![\d:.])(?<number>\d{1,4}):(?<last>\d{1,4})(?![\d:]|[.,]\d)`;
/** No part of longer numbers, names and fractions before and behind two numbers with a stroke. */
const STROKE_START = raw`(?<![\d/.,\p{L}-]|\d )`;
const STROKE_END = raw`(?![\d/]|[.,]\d)`;
/** What is a tenth or a hundredth of something rather than a grade. */
const OF_WHOLE = " (?:of|an?|mile|inch|second|cup|tsp|tbsp|teaspoon|tablespoon|oz|lb|pound)\\b";
const RAISED = raw`\u2070\u00b9\u00b2\u00b3\u2074-\u2079`;

const titled = (words: readonly string[]) =>
  words.map((word) => `[${word[0]}${word[0]!.toUpperCase()}]${word.slice(1)}`).join("|");
/** Up to 89. */
const NUMERAL = raw`(?=[IVXL])L?X{0,3}(?:IX|IV|V?I{0,3})`;
/** More than one letter; not those that are sizes and short forms more often. */
const LONG = raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;

/** After the number of a house and the name of a road. */
const ADDRESS =
  raw`(?<=\b\d+[a-z]?\s(?:[NSEW]\.?\s)?(?:\p{Lu}[\p{Ll}']+\s){1,3}|\d(?:st|nd|rd|th)\s)`;
const ROAD = `(?:${data.roads.replaceAll(" ", "|")}|Street|Avenue|Road|Drive|Lane|Boulevard)`;
const ADDRESS_END = raw`(?=,|\.?(?:$|\s\p{Lu}))`;

/** What is tried before the common rules, since it looks like a part of what they read. */
export const ENGLISH_RULES: readonly Rule[] = [
  // Times, eras and proportions.
  words`{year:year} {era:spell} <- (?<![\d.,$])(?<year>\d{1,5})\s?(?<era>B\.C\.(?:E\.)?|A\.D\b\.?|C\.E\.|(?:AD|BCE?|CE)(?![\p{L}\d]))`,
  words`{era:spell} {year:year} <- \b(?<era>AD|A\.D\.|BC) ?(?<year>\d{1,4})\b(?![.,]?\d)`,
  words`at <- (?<=\d{4}-\d\d-\d\d)[T ](?=\d\d:\d\d)`,
  time`(?i:(?<![\d:.])(?<hour>0?[1-9]|1[0-2])(?:[:.](?<minute>[0-5]\d)(?::(?<second>[0-5]\d))?)?\s?(?<half>[ap])(?:\.m(?:\.(?=\s*[^\s"')])|(?=\.|$))|m\b))`,
  // Chapters and verses look like times and scores; the verse is a number of its own.
  cardinal`(?<=\b(?:${data.books.join("|")}) )(?<number>\d{1,3}):(?=\d{1,3}(?!\d))`,
  words`{number} to {last} <- (?i:(?<=\b(?:ratio|odds|scores?|aspect|scale|rate|resolution|screen|won|lost|lead|led)\b[^.!?]{0,20})${RATIO}|${RATIO}(?= (?:ratio|odds|mix|scale|lead|win)\b))`,
  words`{text} minus <- \b(?<text>GMT|UTC)\s?[-\u2212]\s?(?=\d)`,
  cardinal`(?<=\b(?:GMT|UTC)\s?[+\-\u2212]\s?)(?<number>\d{1,2})(?::00)?(?![:\d])`,
  // Telephone numbers of North America, and codes that are read digit by digit.
  telephone`(?<![\d.,-])(?:1[ .-])?\(?\d{3}\)?[ .-]?(?<=[ .)-])\d{3}[ .-]\d{4}(?![\d-])`,
  telephone`(?<![\d.,-])\d{3}-\d{4}(?![\d-])`,
  telephone`(?<![\p{L}\d.,-])[2-9]\d{6}(?!000)\d{3}(?![\d-]|[.,]\d)`,
  words`one eight hundred <- (?<![\p{L}\d])1-800-(?=[A-Z])`,
  telephone`(?<![\p{L}\d])1-8(?<last>\d)\k<last>-(?=[A-Z])`,
  telephone`(?<=\b(?i:call|dial)(?:ed|ing)? )\d{3}\b(?![ .,-]?\d)|(?<=\bending (?:in|with) )\d{4}\b`,
  // Postal codes.
  rule("telephone", { mark: "groups" })`(?<![\d.,-])\d{5}-\d{4}(?![\d-])`,
  telephone`(?<=\b[A-Z]{2} |\b(?i:zip(?: code)?):? (?:is )?)\d{5}\b(?![.,-]\d)`,
  // Numbers of houses, and points of the compass beside roads.
  words`{number:figures} {text:expand} <- (?<![\p{L}\d])(?<number>\d{1,5}) (?<text>[NSEW])\.?(?= (?:\p{Lu}[\p{Ll}']+ ){1,2}${ROAD}\b| \d+(?:st|nd|rd|th) ${ROAD}\b)`,
  words`{number:figures} <- (?<![\p{L}\d.,$])(?<number>\d{4})(?= (?:\p{Lu}[\p{Ll}']+ ){1,3}${ROAD}\b)`,
  words`{text:expand} <- (?<=\b${ROAD}\.?,? )(?<text>[NS][EW])\b`,
  // Weekdays and dates.
  words`{text:expand} to {last:expand} <- \b(?<text>${WEEKDAY})\.?${DASH}(?<last>${WEEKDAY})(?:${STOP}|(?![\p{L}.]))`,
  // Sat and Sun are also words.
  words`{text:expand} <- \b(?<text>${WEEKDAY})\.?(?=,? (?:${MONTH} )?\d|\s?(?:&|and) (?:Sat|Sun)\b|\/${WEEKDAY}\b)`,
  words`{text:expand} <- (?<=\b(?:Fri|Sat)\.?,? (?:& |and )?)(?<text>Sat|Sun)\b(?:${STOP}|(?! \p{Ll}))`,
  words`{text:expand} <- (?<=\b${WEEKDAY}\/)(?<text>${WEEKDAY})\b`,
  words`{text:expand} <- \b(?<text>Mon|Tues?|Wed|Thurs?|Fri)\.(?=\s?\S)`,
  date`\b${MONTH} ${DAY}(?:${DASH}${LAST_DAY})?(?:,? (?<year>\d{4}))?\b(?![:.,/]?\d|\s?[ap]\.?m\b)`,
  rule("date", { the: "the" }, isNamedDay)`${DAY_FIRST}`,
  date`${DAY_FIRST}`,
  date`\b${MONTH}(?:,? (?<year>\d{4})\b(?![.,]?\d))`,
  date`\b${MONTH}(?=${DASH}(?:${SHORT_MONTH.replace("?<month>", "?:")})\p{Ll}*(?!\p{L}))`,
  date`\b${SHORT_MONTH}\.(?=\s(?:\p{Ll}|\d))`,
  date`(?<=\b(?:in|since|until|of|by|last|next|this) )${SHORT_MONTH}${STOP}(?!\s\d)`,
  validDate`(?<=\b(?i:on|since|until|till|due|by|from|before|after) )(?<month>\d{1,2})\/(?<day>\d{1,2})(?![\d/%])`,
  // Feet, and inches behind them.
  feet`(?<![\d'])(?<number>\d{1,2})['\u2032](?=\s?\d{1,2}(?:\.\d+|[\u00bc-\u00be])?(?:["\u2033]|''))`,
  cardinal`(?<=\d['\u2032]\s?)(?<number>\d{1,2}(?:\.\d+)?)(?:["\u2033]|'')`,
  fraction`(?<=\d['\u2032]\s?)(?<whole>\d{1,2})(?<vulgar>[\u00bc-\u00be])(?:["\u2033]|'')`,
  feet`${FEET}(?=${SIZED})|(?<=(?:x|\u00d7|by)\s?)${FEET}`,
  rule("verbatim", { said: "{number} inch" }, isUnquoted)`${INCHES}(?=${NAMED})`,
  rule("measure", { unit: "in" }, isUnquoted)`${INCHES}(?=${SIZED}|\s)`,
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
  words`{number} out of {last} <- ${STROKE_START}(?:(?<number>[2-9]|10)\/(?<last>10)|(?<number>[2-9]|[1-9]\d|100)\/(?<last>100)|(?<number>5)\/(?<last>5))${STROKE_END}(?!${OF_WHOLE})`,
  words`{number} divided by {last} <- ${STROKE_START}(?<number>\d+)\/(?<last>\d+)(?=\s?=)`,
  // A blood pressure.
  words`{number} over {last} <- ${STROKE_START}(?<number>[7-9]\d|1\d\d|2[0-5]\d)\/(?<last>[4-9]\d|1[0-4]\d)${STROKE_END}`,
  words`out of <- (?<=(?<![\d.\/])\d\.\d+)\/(?=\d)`,
  words`and <- (?<=\b${WEEKDAY})\/(?=${WEEKDAY}\b)`,
  // An offer: 2/$1.
  words`for <- (?<=(?<![\d.,/])\d)\/(?=[$\u20ac\u00a3]\d)`,
  // Codes, powers of ten, and sizes.
  words`zero x {text:code} <- (?i:(?<![\p{L}\d])0x(?<text>[\da-f]{1,16})(?![\p{L}\d]))`,
  words`{number:figures} by <- (?<![\p{L}\d.,])(?<number>\d+(?:\.\d+)?)(?:\s?x\s?|\u00d7(?!10[${RAISED}\u207b^]))(?=\d)`,
  words`by <- (?<=['"\u2032\u2033\d]\s?|\d\s?\p{L}{1,2}\s)x(?=\s?\d)`,
  words`{number} times <- (?<![\p{L}\d.,])(?<number>\d+(?:\.\d+)?)x(?=\s+(?:faster|slower|more|less|better|bigger|larger|smaller|higher|longer|cheaper|as|a|an|the|per|daily|weekly|monthly)\b|\/\p{L})`,
  // Units behind a word for a number, and rates without a number.
  measure`(?<=\d\s?(?:hundred|thousand|million|billion|trillion) )(?<unit>k?m|k?g|lbs?|ft|mi|mph|k?W|k?Wh|l|L|gal|oz)(?<power>[\u00b2\u00b3])?(?![\p{L}\d'])`,
  words`{per:rate} <- (?<=\p{L}{2}|\dx?)\/(?<per>${PERIOD})\b`,
  measure`(?<![\p{L}\d/])(?<unit>km|mi|m|ft|[kMG]b|[kMG]B)\/(?<per>h|s|sec|min|day)(?![\p{L}\d])`,
];

/** What is tried after the common rules. */
export const LAST_ENGLISH_RULES: readonly Rule[] = [
  // Decades and years.
  date`(?<![\d.,$])(?<decade>(?:1[1-9]|20)\d0)['\u2019]?s\b`,
  date`(?<![\d.,$])['\u2019]?(?<decade>[1-9]0)['\u2019]?s\b`,
  words`{number:figures} <- (?<=^|[\s(])['\u2019](?<number>\d\d)\b(?!['\u2019"])`,
  date`(?<![\d.,$+])(?<year>(?:1[1-9]|20)\d\d)(?![.,]?\d)`,
  date`(?i:(?<=\b(?:in|since|until|till|by|year|AD|before|after|from|around|circa) )(?<year>10\d\d)\b(?![.,]\d))`,
  // Ordinals.
  ordinal`(?i:(?<![\d.,\p{L}])(?<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)(?![\p{L}\d]))`,
  // Powers of ten: 6.02e23, 1e-5, but not 12e4567 or other codes.
  words`{number} times ten to the {power} <- (?i:(?<![\p{L}\d.])(?<number>\d(?:\.\d+)?|\d+\.\d+)e\+?(?<power>\d{1,3})(?![\p{L}\d]))`,
  words`{number} times ten to the minus {power} <- (?i:(?<![\p{L}\d.])(?<number>\d+(?:\.\d+)?)e-(?<power>\d{1,3})(?![\p{L}\d]))`,
  // Hashes and identifiers.
  words`{text:spell} <- (?<![\p{L}\d])(?<text>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9a-f]*\d[0-9a-f]*[a-f][0-9a-f]*\d|[0-9a-f]*[a-f][0-9a-f]*\d[0-9a-f]*[a-f])[0-9a-f]{7,64})(?![\p{L}\d])`,
  // Powers: x², 10⁻³, 2^n.
  words`{power:power} <- (?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})(?<power>\u207b?[${RAISED}]+)`,
  words`{power:power} <- (?<=[\p{L}\d)\]])\^[({]?(?<power>[-\u2212]?\d+(?:\.\d+)?|\p{L}(?!\p{L}))[)}]?`,
  words`{text:lowered} <- (?<text>[\u2080-\u2089]+)`,
  // Versions: v2.5.1, v2.0.0-rc.1.
  words`{mark} {text:version} <- (?<![\p{L}\d.])(?<mark>[vV])(?<text>\d+(?:\.\d+)+)(?![\p{L}\d])`,
  words`R C <- (?<=\d\.\d+\.\d+|[vV]\d+\.\d+)-rc\.?(?!\p{L})`,
  words`{text} <- (?<=\d\.\d+\.\d+|[vV]\d+\.\d+)-(?<text>\p{Ll}+)\.?(?!\p{L})`,
  words`{number} point {last} <- (?<=\b[vV]ersion )(?<number>\d+)\.(?<last>[1-9]\d+)(?![\d.])`,
  words`{text} {number:figures} <- (?<![\p{L}\d.])(?<text>\p{Lu})\.(?<number>\d{2,4})(?![\d.])`,
  // Names with figures: GPT-4o, Qwen2.5-7B, DDR5-5600, H2O, 4K, 221B.
  words`{text:name} <- (?<![\p{L}\d])(?!\p{Ll}{2,}-(?!\d+(?:\.\d+)?-\d+(?:\.\d+)?\p{Ll}))(?<text>\p{L}{1,12}(?:-?\d+(?:\.\d+)?\p{L}{0,8})(?:-?\d+(?:\.\d+)?\p{L}{0,8}|-\p{L}\d+){0,6})(?![\p{L}\d])`,
  words`{text:name} <- (?<![\p{L}\d.,])(?<text>\d{1,4}(?:\.\d+)?\p{L}{1,3}\d{0,3})(?![\p{L}\d'\u2019])`,
  words`number <- (?:#|\u2116)\s?(?=\d)`,
  words`about <- (?<!\w)~(?=[$\u20ac\u00a3]?\d)`,
  words`times <- (?<=\d)\s*\*\s*(?=\d)`,
  // Numerals of centuries, rulers, chapters and the like.
  ordinalNumeral`(?<![\p{L}\d'-])(?<numeral>${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries)\b))`,
  // Alone, I is a word.
  ruler`(?<=\b(?:${
    data.rulers.join("|")
  }) )(?<numeral>${LONG}|IV|V|X|I(?=[,.;:)']| (?:of|was|had|reigned|ruled|died|and)\b|$))(?![\p{L}\d-])`,
  roman`(?<=\b(?:${titled(data.counted)}) )(?<numeral>${NUMERAL})(?![\p{L}\d'-])`,
  roman`(?<=(?<!\p{L})\p{Lu}\p{L}+ )(?<numeral>${LONG})(?![\p{L}\d'-])`,
  // Titles and roads.
  words`P H D <- (?<!\p{L})Ph\.?\s?D\b(?:\.(?=\s*[^\s"')]))?`,
  // After a name a road, elsewhere somebody's title.
  words`Drive <- (?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr${STOP}(?!\s+\p{Lu}\p{Ll})`,
  words`Doctor <- (?<!\p{L})Dr${STOP}`,
  // In an address a full stop may be left out.
  words`{text:expand} <- ${ADDRESS}(?<text>${data.roads.replaceAll(" ", "|")})${ADDRESS_END}`,
  // AT&T, R&D.
  words`{text:spell} and {last:spell} <- (?<![\p{L}\d&])(?<text>\p{Lu}{1,4})&(?<last>\p{Lu}{1,3})(?![\p{L}\d&])`,
  // A grade; with a plus the sign is read.
  words`minus <- (?<=(?:^|[\s("])[A-F])-(?=\s(?:student|grade|average|in|on|for)\b|[,;)]|\.(?:\s|$))`,
  // The full stop of a unit within a sentence: 16 oz. of it.
  words`<- (?<=(?:\d\s?|\d\/)(?:lbs?|oz|gal|qt|pt|yrs?|mos?|wks?|hrs?|mins?|secs?|ft|yds?|mi|tsp|tbsp))\.(?=\s+[\p{Ll}\d=+(&]|[;,])`,
  words`divided by <- (?<=(?<![\p{L}\d])\p{L}|\d|\)) \/ (?=\(|\d|\p{L}(?![\p{L}\d]))`,
  words`for example, <- (?<!\p{L})e\.\s?g\.,?`,
  words`that is, <- (?<!\p{L})i\.\s?e\.,?`,
  // Before a name a saint, after one a street.
  words`Street <- (?<=(?:\p{Lu}\p{Ll}+|\d(?:st|nd|rd|th))\s)St(?!\.\s+\p{Lu}\p{Ll})${STOP}`,
  words`Saint <- (?<!\p{L})St\.(?=\s+\p{Lu})`,
  // Not an answer.
  words`number <- (?:(?<=\d(?:,| and| or) )|(?<!\b(?:said|says?|answer(?:ed|s)?|is|was|and|or) ))(?<!\p{L})no\.(?=\s*\d)`,
  words`versus <- (?<![\p{L}\d])vs(?![\p{L}\d.])`,
  words`with <- (?<!\p{L})w\/(?=\s?[\p{L}\d])`,
  // U.S. and b.i.d., letter by letter.
  words`{text:code} <- (?<![\p{L}\d.])(?<text>\p{L}(?:\.\p{L})+)(?:\.(?=\s*[^\s"')\]])|(?=\.)|(?![\p{L}\d]))`,
  // A link to a name, and a topic.
  words`hashtag <- (?<!\S)#(?=\p{L})`,
  words`dot <- (?<!\S)\.(?=\p{L})`,
  // Comparisons and arrows.
  words`less than <- (?<=[\w)|\]])(?:\s+<\s+|<)(?=[\w($.-])`,
  words`greater than <- (?<=[\w)|\]])(?:\s+>\s+|>)(?=[\w($.-])`,
  words`less than <- (?<!\S)<(?=[$]?\d)`,
  words`more than <- (?<!\S)>(?=[$]?\d)`,
  // Between letters of short forms nothing is said.
  words`<- (?<=(?<!\p{L})\p{Lu}+)\/(?=\p{Lu}+(?!\p{L}))`,
  words`or <- (?<=\p{L})(?:\/| \/ )(?=\p{L})`,
];
