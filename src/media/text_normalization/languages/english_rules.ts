/**
 * Recognizes what English texts have beside the tokens of all languages.
 *
 * @module
 */
import { STOP } from "../abbreviation_rules.ts";
import { isDate } from "../date_rules.ts";
import type { Lexicon } from "../lexicon.ts";
import { readAmount, readNumber } from "../number_format.ts";
import type { NumberWords } from "../number_words.ts";
import { matchAny } from "../tables.ts";
import {
  type CalendarDate,
  type Context,
  type Rule,
  type Scale,
  type Token,
  verbatim,
} from "../token.ts";
import { type EnglishNumbers, isGrade, MONTHS } from "./english_numbers.ts";

/** What the rules say numbers with. */
interface EnglishTools {
  readonly numbers: NumberWords;
  readonly english: EnglishNumbers;
  readonly lexicon: Lexicon;
}

type Groups = readonly (string | undefined)[];
type Read = (groups: Groups, context: Context) => Token | undefined;

const rule = (pattern: RegExp, read: Read): Rule => ({ pattern, read });
const digits = (text: string): Token => ({ kind: "telephone", text });
const number = (written: string, minus?: string): Token => ({
  kind: "cardinal",
  amount: readAmount(readNumber(written, "."), { minus }),
});

const SHORT_MONTHS = [
  "Jan",
  "Feb",
  "Mar",
  "Apr",
  "May",
  "Jun",
  "Jul",
  "Aug",
  "Sep",
  "Oct",
  "Nov",
  "Dec",
];
const MONTH =
  "(January|February|March|April|May|June|July|August|September|October|November|December|" +
  String.raw`(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?:${STOP}|(?![a-z.])))`;
const DAY = String.raw`([1-9]|[12]\d|3[01])(?:st|nd|rd|th)?`;
const DASH = String.raw`\s?[-\u2013]\s?`;

const readMonth = (name: string) => SHORT_MONTHS.indexOf(name.slice(0, 3)) + 1;

function readDate(
  month: string,
  { day, lastDay, year, isDayFirst }: {
    readonly day?: string | undefined;
    readonly lastDay?: string | undefined;
    readonly year?: string | undefined;
    readonly isDayFirst?: boolean;
  },
): CalendarDate {
  return {
    kind: "date",
    month: readMonth(month),
    day: day === undefined ? undefined : Number(day),
    lastDay: lastDay === undefined ? undefined : Number(lastDay),
    year: year === undefined ? undefined : Number(year),
    isDayFirst: isDayFirst ?? false,
  };
}

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const WEEKDAY = "(Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)";
const weekday = (short: string) => WEEKDAYS.find((name) => name.startsWith(short.slice(0, 3)))!;

/** Dates with names of months and weekdays, and years. */
export function englishDateRules(): Rule[] {
  return [
    rule(
      new RegExp(String.raw`\b${WEEKDAY}\.?${DASH}${WEEKDAY}(?:${STOP}|(?![\p{L}.]))`, "uy"),
      ([first, last]) => verbatim(`${weekday(first!)} to ${weekday(last!)}`),
    ),
    // Sat and Sun are also words.
    rule(
      new RegExp(
        String
          .raw`\b${WEEKDAY}\.?(?=,? (?:${MONTH} )?\d|\s?(?:&|and) (?:Sat|Sun)\b)|(?<=\b(?:Fri|Sat)\.?,? (?:& |and )?)(Sat|Sun)\b(?:${STOP}|(?! \p{Ll}))|` +
          String.raw`\b(Mon|Tues?|Wed|Thurs?|Fri)\.(?=\s?\S)`,
        "uy",
      ),
      ([timed, , second, other]) => verbatim(weekday((timed ?? second ?? other)!)),
    ),
    rule(
      new RegExp(
        String.raw`\b${MONTH} ${DAY}(?:${DASH}${DAY})?(?:,? (\d{4}))?\b(?![:.,/]?\d|\s?[ap]\.?m\b)`,
        "uy",
      ),
      ([month, day, lastDay, year]) => readDate(month!, { day, lastDay, year }),
    ),
    rule(
      new RegExp(
        String.raw`(the )?(?<![\w.,:/$-])${DAY}( of)? ${MONTH}(?! \d{1,2}\b(?!:))(?:,? (\d{4})\b)?`,
        "uy",
      ),
      ([the, day, of, month, year], { before }) => {
        const isNamed = the !== undefined || of !== undefined || year === undefined;
        // "the" may stand before the token.
        const date = readDate(month!, {
          day,
          year,
          isDayFirst: isNamed || / of $|the $/.test(before),
        });
        return date;
      },
    ),
    rule(
      new RegExp(String.raw`\b${MONTH}(?:,? (\d{4})\b(?![.,]?\d))`, "uy"),
      ([month, year]) => readDate(month!, { year }),
    ),
    rule(
      new RegExp(String.raw`\b${MONTH}${DASH}${MONTH}(?!\p{L})`, "uy"),
      ([first, last]) =>
        verbatim(`${MONTHS[readMonth(first!) - 1]} to ${MONTHS[readMonth(last!) - 1]}`),
    ),
    rule(
      new RegExp(
        String.raw`(?<=\b(?:in|since|until|of|by|last|next|this) )(${
          SHORT_MONTHS.join("|")
        }|Sept)${STOP}(?!\s\d)`,
        "uy",
      ),
      ([month]) => readDate(month!, {}),
    ),
    rule(
      new RegExp(String.raw`\b(${SHORT_MONTHS.join("|")}|Sept)\.(?=\s(?:\p{Ll}|\d))`, "uy"),
      ([month]) => readDate(month!, {}),
    ),
    rule(
      /(?<=\b(?:on|since|until|till|due|by|from|before|after) )(\d{1,2})\/(\d{1,2})(?![\d/%])/iuy,
      ([month, day]) =>
        isDate(Number(day), Number(month))
          ? { kind: "date", month: Number(month), day: Number(day) }
          : undefined,
    ),
  ];
}

/** Eras, decades and years. */
export function englishYearRules({ english }: EnglishTools): Rule[] {
  return [
    rule(
      /\b(AD|A\.D\.|BC) ?(\d{1,4})\b(?![.,]?\d)/uy,
      ([era, year]) =>
        verbatim(`${[...era!.replaceAll(".", "")].join(" ")} ${english.year(Number(year))}`),
    ),
    rule(
      /(?<![\d.,$])(\d{1,5})\s?(AD|BC|BCE|CE)(?![\p{L}\d])/uy,
      ([year, era]) =>
        verbatim(`${english.year(Number(year))} ${[...era!.replaceAll(".", "")].join(" ")}`),
    ),
    rule(
      /(?<![\d.,$])((?:1[1-9]|20)\d0)['\u2019]?s\b/uy,
      ([year]) => verbatim(english.decade(Number(year))),
    ),
    rule(
      /(?<![\d.,$])['\u2019]?([1-9]0)['\u2019]?s\b/uy,
      ([year]) => verbatim(english.decade(Number(year))),
    ),
    rule(/(?<=^|[\s(])['\u2019](\d\d)\b(?!['\u2019"])/uy, ([year]) => number(year!)),
    rule(
      new RegExp(
        String.raw`(?<![\d.,$/])((?:1[1-9]|20)\d\d)${DASH}(\d\d)(?![\d.,/:-]|\s?[=%])`,
        "uy",
      ),
      ([year, last]) =>
        Number(last) > Number(year!.slice(2))
          ? verbatim(`${english.year(Number(year))} to ${english.year(Number(last))}`)
          : undefined,
    ),
    rule(/(?<![\d.,$+])((?:1[1-9]|20)\d\d)(?![.,]?\d)/uy, ([year]) => ({
      kind: "year",
      year: Number(year),
    })),
    rule(
      /(?<=\b(?:in|since|until|till|by|year|AD|before|after|from|around|circa) )(10\d\d)\b(?![.,]\d)/iuy,
      ([year]) => ({ kind: "year", year: Number(year) }),
    ),
  ];
}

/** Chapters and verses look like times and scores. */
const BOOKS =
  "Genesis|Exodus|Samuel|Kings|Chronicles|Psalms?|Proverbs|Isaiah|Matthew|Matt\\.|Mark|Luke|John|Acts|Romans|Rom\\.|" +
  "Corinthians|Cor\\.|Timothy|Hebrews|James|Peter|Revelation|Surah|Quran|verse";
const RATIO =
  /\b(?:ratio|odds|scores?|aspect|scale|rate|resolution|screen|won|lost|lead|led)\b[^.!?]{0,20}$/i;
/** Without a full stop in it, one after it is the sentence's. */
const HALF = String.raw`([ap])(?:\.m(?:\.(?=\s*[^\s"')])|(?=\.|$))|m\b)`;

/** Times with halves of the day, verses, scores and proportions. */
export function englishTimeRules({ numbers, english }: EnglishTools): Rule[] {
  const say = (figures: string) => numbers.cardinal(figures.replace(/^0+(?=\d)/, ""));
  return [
    // Before a B can be bytes.
    rule(
      /(?<![\d.,$])(\d{1,5})\s?(B\.C\.(?:E\.)?|A\.D\.|C\.E\.)(?![\p{L}\d])/uy,
      ([year, era]) =>
        verbatim(`${english.year(Number(year))} ${[...era!.replaceAll(".", "")].join(" ")}`),
    ),
    rule(
      /(?<![\d-])(\d{4})-(\d\d)-(\d\d)[T ](?=\d\d:\d\d)/uy,
      ([year, month, day]) => ({
        kind: "date",
        year: Number(year),
        month: Number(month),
        day: Number(day),
      }),
    ),
    rule(
      /(?<=\d{4}-\d\d-\d\d[T ])(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(Z?)(?!\d)/uy,
      ([hour, minute, second, zone]) => {
        const parts = [hour, minute, second].map((part) => Number(part ?? 0));
        const time = parts.slice(0, parts[2] === 0 ? 2 : 3).map((part, i) =>
          i > 0 && part < 10 ? `oh ${part === 0 ? "oh" : say(String(part))}` : say(String(part))
        );
        return verbatim(`at ${time.join(" ")}${zone && " UTC"}`);
      },
    ),
    rule(
      new RegExp(
        String.raw`(?<![\d:.])(0?[1-9]|1[0-2])(?::([0-5]\d)(?::([0-5]\d))?)?\s?${HALF}`,
        "iuy",
      ),
      ([hour, minute, second, half]) => ({
        kind: "time",
        hour: Number(hour),
        minute: Number(minute ?? 0),
        second: second === undefined ? undefined : Number(second),
        half: half!.toLowerCase() === "a" ? "am" : "pm",
      }),
    ),
    rule(
      new RegExp(String.raw`(?<![\p{L}\d])${HALF.replace("m\\b", "\\.m\\.(?=\\s*$)")}`, "uy"),
      ([half]) => verbatim(`${half!.toUpperCase()} M`),
    ),
    rule(
      new RegExp(
        String.raw`(?<=\b(?:${BOOKS}) )(\d{1,3}):(\d{1,3})(?:[-\u2013](\d{1,3}))?(?!\d)`,
        "uy",
      ),
      ([chapter, verse, last]) =>
        verbatim(`${say(chapter!)} ${say(verse!)}${last ? ` to ${say(last)}` : ""}`),
    ),
    rule(
      /(?<![\d:.])(\d{1,4}(?:\.\d+)?):(\d{1,4}(?:\.\d+)?)(?![\d:]|[.,]\d)/uy,
      ([first, second], { before }) => {
        const isClock = /^\d{1,2}$/.test(first!) && Number(first) < 24 && /^[0-5]\d$/.test(second!);
        if (isClock && !RATIO.test(before)) return undefined;
        return verbatim(`${say(first!)} to ${say(second!)}`);
      },
    ),
    rule(
      /\b(GMT|UTC)\s?([+\-\u2212])\s?(\d{1,2})(?::(\d\d))?(?!\d)/uy,
      ([zone, sign, hours, minutes]) => {
        const offset = say(hours!) +
          (minutes === undefined || minutes === "00" ? "" : ` ${say(minutes)}`);
        return verbatim(`${zone} ${sign === "+" ? "plus" : "minus"} ${offset}`);
      },
    ),
  ];
}

/** Telephone numbers as North America writes them, and codes that are read digit by digit. */
export function englishTelephoneRules({ numbers }: EnglishTools): Rule[] {
  const say = (text: string) => verbatim(numbers.digits(text));
  return [
    rule(
      /(?<![\d.,-])((?:1[ .-])?\(?\d{3}\)?[ .-]?(?<=[ .)-])\d{3}[ .-]\d{4})(?![\d-])/uy,
      ([text]) => say(text!),
    ),
    rule(/(?<![\d.,-])(\d{3}-\d{4})(?![\d-])/uy, ([text]) => say(text!)),
    rule(
      /(?<![\p{L}\d.,-])([2-9]\d{9})(?![\d-]|[.,]\d)/uy,
      ([text]) => text!.endsWith("000") ? undefined : say(text!),
    ),
    rule(
      /(?<![\p{L}\d])1-8(\d)\1-(?=[A-Z])/uy,
      ([digit]) =>
        verbatim(digit === "0" ? "one eight hundred" : `${numbers.digits(`18${digit}${digit}`)}`),
    ),
    rule(/(?<=\b(?:call|dial)(?:ed|ing)? )(\d{3})\b(?![ .,-]?\d)/iuy, ([text]) => say(text!)),
    // Postal codes.
    rule(/(?<![\d.,-])(\d{5}-\d{4})(?![\d-])/uy, ([text]) => digits(text!)),
    rule(
      /(?<=\b[A-Z]{2} |\bzip(?: code)?:? (?:is )?)(\d{5})\b(?![.,-]\d)/iuy,
      ([text]) => say(text!),
    ),
  ];
}

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

/** Feet and inches, durations, great numbers in short, and strokes between numbers. */
export function englishAmountRules({ numbers, english, lexicon }: EnglishTools): Rule[] {
  const say = (figures: string) => numbers.cardinal(readNumber(figures, "."));
  const scaled = (figures: string, scale: Scale): Token => ({
    kind: "cardinal",
    amount: readAmount(readNumber(figures, "."), { scale }),
  });
  const measure = (figures: string, unit: string): Token => ({
    kind: "measure",
    amount: readAmount(figures),
    unit,
  });
  return [
    rule(
      /(?<![\d'])(\d{1,2})['\u2032]\s?(\d{1,2}(?:\.\d+)?)(?:["\u2033]|'')/uy,
      ([feet, inches]) =>
        verbatim(`${say(feet!)} ${feet === "1" ? "foot" : "feet"} ${say(inches!)}`),
    ),
    rule(
      /(?<![\d'])(\d{1,2})['\u2032]\s?(\d{1,2})([\u00bc-\u00be])(?:["\u2033]|'')/uy,
      ([feet, inches, part]) =>
        verbatim(
          `${say(feet!)} ${feet === "1" ? "foot" : "feet"} ${say(inches!)} and ${QUARTERS[part!]}`,
        ),
    ),
    rule(
      /(?<![\d.,'])(\d+(?:\.\d+)?)['\u2032]/uy,
      ([feet], { before, after }) =>
        (SIZED.test(after) || /(?:x|\u00d7|by)\s?$/.test(before)) && !/(?:^|\s)'[^']*$/.test(before)
          ? measure(feet!, "ft")
          : undefined,
    ),
    rule(
      /(?<![\d.,])(\d+(?:\.\d+)?)["\u2033]/uy,
      ([inches], { before, after }) =>
        !isInQuotes(before) && (SIZED.test(after) || /^\s/.test(after))
          ? NAMED.test(after) ? verbatim(`${say(inches!)} inch`) : measure(inches!, "in")
          : undefined,
    ),
    rule(
      /(?<=\d\s?(?:ft|feet|foot)\.?,? )(\d{1,2}(?:\.\d+)?)\s?in\b(?:\.(?=\s\p{Ll}))?/uy,
      ([inches]) => measure(inches!, "in"),
    ),
    // As in 2h30, 2h 5m and 5m30s.
    rule(/(?<![\d.,\p{L}])(1\d|2[0-3])h([0-5]\d)(?![\p{L}\d])/uy, ([hour, minute]) => ({
      kind: "time",
      hour: Number(hour),
      minute: Number(minute),
    })),
    rule(
      /(?<![\d.,\p{L}])(\d+)\s?h\s?(?:([0-5]\d)|(\d{1,2})\s?m(?:in)?)(?![\p{L}\d])/uy,
      ([hours, minutes, other]) =>
        verbatim(
          `${lexicon.measure({ kind: "measure", amount: readAmount(hours!), unit: "h" })} ` +
            lexicon.measure({
              kind: "measure",
              amount: readAmount(String(Number(minutes ?? other))),
              unit: "min",
            }),
        ),
    ),
    rule(
      /(?<![\d.,\p{L}])(\d+)\s?m(?:in)?\s?(\d{1,2})\s?s(?:ec)?(?![\p{L}\d])/uy,
      ([minutes, seconds]) =>
        verbatim(
          `${lexicon.measure({ kind: "measure", amount: readAmount(minutes!), unit: "min" })} ` +
            lexicon.measure({ kind: "measure", amount: readAmount(seconds!), unit: "s" }),
        ),
    ),
    rule(/(?<![\p{L}\d])401\(?k\)?(?!\w)/iuy, () => verbatim("four oh one K")),
    rule(/(?<![\w.,])(\d{2,}|\d+\.\d+)k(?![\p{L}\d])/iuy, ([count]) => scaled(count!, "thousand")),
    rule(
      /(?<![\w.,])(\d+(?:\.\d+)?)\s?(M|bn|mn)(?![\p{L}\d\/])/uy,
      ([count, scale]) => scaled(count!, scale === "bn" ? "billion" : "million"),
    ),
    rule(/(?<=\/\d{1,2})["\u2033](?=\s|$)/uy, () => verbatim(" inch")),
    rule(/(?<![\d-])50-50(?![\d-])/uy, () => verbatim("fifty fifty")),
    // Strokes.
    rule(
      /(?<![\d/.,\p{L}-])(?:(\d+)[ -])?([1-9]\d?\d?)\/([1-9]\d{0,3})(?![\d/]|[.,]\d)/uy,
      ([whole, above, below], { after }) => {
        const numerator = Number(above);
        const denominator = Number(below);
        const isMarks = isGrade({
          whole: whole === undefined ? undefined : Number(whole),
          numerator,
          denominator,
          after,
        });
        if (isMarks) return verbatim(`${say(above!)} out of ${say(below!)}`);
        if (whole !== undefined) return undefined;
        if (/^\s?=/.test(after)) return verbatim(`${say(above!)} divided by ${say(below!)}`);
        // A blood pressure.
        if (numerator >= 70 && denominator >= 40 && numerator > denominator && numerator < 260) {
          return verbatim(`${say(above!)} over ${say(below!)}`);
        }
        return undefined;
      },
    ),
    rule(/(?<=\d\)?) \/ (?=\(?\d)/uy, () => verbatim("divided by")),
    rule(/(?<=\d)\/(?=\d)/uy, () => verbatim("")),
    // An offer: 2/$1.
    rule(/(?<=(?<![\d.,/])\d)\/(?=[$\u20ac\u00a3]\d)/uy, () => verbatim(" for ")),
    // A power of ten.
    rule(
      /(?<=\d)\s?\u00d7\s?(?=10[\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u207b^])/uy,
      () => verbatim(" times "),
    ),
    // The unit behind a fraction.
    rule(
      new RegExp(
        String.raw`(?<=(\d\s)?(\d+\s?[/\u2044]\s?\d+|[\u00bc-\u00be\u2150-\u215e])[ -]?)(${
          matchAny(lexicon.units.filter((unit) => /^[a-z ]+$/i.test(unit)))
        })(?![\p{L}\d'/])(?:\.(?=\s\p{Ll}))?`,
        "uy",
      ),
      ([whole, , unit]) =>
        unit === "in" || unit === "d"
          ? undefined
          : verbatim(lexicon.noun(unit!, whole === undefined)),
    ),
    rule(
      /(?<![\p{L}\d])0x([\da-f]{1,16})(?![\p{L}\d])/iuy,
      ([code]) =>
        verbatim(
          `zero x ${
            [...code!.toUpperCase()].map((each) => /\d/.test(each) ? numbers.digits(each) : each)
              .join(" ")
          }`,
        ),
    ),
    // Sizes.
    rule(
      /(?<![\p{L}\d.,])(\d+(?:\.\d+)?)(?:\s?x\s?|\u00d7(?!10[\^\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u207b]))(?=\d)/uy,
      ([figures]) =>
        verbatim(`${/^\d{4}$/.test(figures!) ? english.figures(figures!) : say(figures!)} by `),
    ),
    rule(/(?<=['"\u2032\u2033\d]\s?|\d\s?\p{L}{1,2}\s)x(?=\s?\d)/uy, () => verbatim(" by ")),
    rule(
      /(?<![\p{L}\d.,])(\d+(?:\.\d+)?)x(?=\s+(?:faster|slower|more|less|better|bigger|larger|smaller|higher|longer|cheaper|as|a|an|per|daily|weekly|monthly)\b|\/\p{L})/uy,
      ([count]) => verbatim(`${say(count!)} times`),
    ),
    rule(
      /(?<=\p{L}{2}|\dx?)\/(sec|s|min|h|hr|hour|second|minute|day|night|week|wk|month|mo|year|yr|person|user|capita)\b/uy,
      ([period]) => verbatim(` per ${PERIODS[period!] ?? period}`),
    ),
    rule(
      /(?<![\p{L}\d.,/])(\d+(?:,\d{3})*(?:\.\d+)?)\s?(mg|g|kg|ml|mL|l|L|lbs?|oz|kcal|cal|[kMGT]B|kWh)\/(day|night|week|wk|month|mo|year|yr|hour|hr|person|serving|dose)(?!\p{L})/uy,
      ([figures, unit, per]) => {
        const amount = readAmount(readNumber(figures!, "."));
        const measured = lexicon.measure({ kind: "measure", amount, unit: unit! });
        return verbatim(`${measured} per ${PERIODS[per!] ?? per}`);
      },
    ),
    rule(
      /(?<![\p{L}\d/])(km|mi|m|ft|[kMG]b|[kMG]B)\/(h|s|sec|min|day)(?![\p{L}\d])/uy,
      ([unit, per]) => verbatim(`${lexicon.noun(unit!, false)} per ${PERIODS[per!] ?? per}`),
    ),
  ];
}

const QUARTERS: Readonly<Record<string, string>> = {
  "\u00bc": "a quarter",
  "\u00bd": "a half",
  "\u00be": "three quarters",
};

const PERIODS: Readonly<Record<string, string>> = {
  s: "second",
  sec: "second",
  min: "minute",
  h: "hour",
  hr: "hour",
  wk: "week",
  mo: "month",
  yr: "year",
};

const RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const LOWERED = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089";
const POWERS: Readonly<Record<string, string>> = { "2": "squared", "3": "cubed" };

/** Ordinals, powers, codes, and names with figures in them. */
export function englishNumberRules({ numbers, english }: EnglishTools): Rule[] {
  const say = (figures: string) => numbers.cardinal(figures);
  const sayPower = (sign: string, power: string) =>
    verbatim(POWERS[sign + power] ?? `to the power of ${sign && "minus "}${say(power)}`);
  return [
    rule(/(?<![\d.,])0th\b/uy, () => verbatim("zeroth")),
    rule(
      /(?<![\d.,\p{L}])(\d{1,3}(?:,\d{3})+|\d+)(st|nd|rd|th)(?![\p{L}\d])/iuy,
      ([digits, mark]) => ({ kind: "ordinal", digits: digits!.replaceAll(",", ""), mark: mark! }),
    ),
    rule(/(?<![\d.,])100s\b/uy, () => verbatim("hundreds")),
    rule(/(?<![\d.,])1,?000s\b/uy, () => verbatim("thousands")),
    // Powers of ten: 6.02e23, 1e-5, but not 12e4567 or other codes.
    rule(
      /(?<![\p{L}\d.])(\d+(?:\.\d+)?)e([+-]?)(\d{1,3})(?![\p{L}\d])/iuy,
      ([mantissa, sign, power]) =>
        sign !== "" || mantissa!.includes(".") || mantissa!.length === 1
          ? verbatim(
            `${say(mantissa!)} times ten to the ${sign === "-" ? "minus " : ""}${say(power!)}`,
          )
          : undefined,
    ),
    // Hashes and identifiers.
    rule(
      /(?<![\p{L}\d])([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9a-f]*\d[0-9a-f]*[a-f][0-9a-f]*\d|[0-9a-f]*[a-f][0-9a-f]*\d[0-9a-f]*[a-f])[0-9a-f]{7,64})(?![\p{L}\d])/uy,
      ([code]) =>
        verbatim(
          [...code!.replaceAll("-", "")].map((each) => /\d/.test(each) ? say(each) : each).join(
            " ",
          ),
        ),
    ),
    rule(
      new RegExp(String.raw`(?<=[\d)\]]|(?<!\p{L})\p{L}{1,3})(\u207b?)([${RAISED}]+)`, "uy"),
      ([sign, power]) =>
        sayPower(sign ? "-" : "", [...power!].map((each) => RAISED.indexOf(each)).join("")),
    ),
    rule(
      new RegExp(`([${LOWERED}]+)`, "uy"),
      ([low]) =>
        verbatim(say(String(Number([...low!].map((each) => LOWERED.indexOf(each)).join(""))))),
    ),
    rule(/\^[({]?([-\u2212]?)(\d+)[)}]?/uy, ([sign, power]) => sayPower(sign ? "-" : "", power!)),
    rule(/\^[({]?(\p{L})[)}]?(?!\p{L})/uy, ([power]) => verbatim(`to the power of ${power}`)),
    // Versions behind a letter: v2.5.1, v2.0.0-rc.1.
    rule(
      /(?<![\p{L}\d.])([vV]?)(\d+(?:\.\d+){2,}|(?<=[vV])\d+\.\d+)(?:-(\p{Ll}+)\.?(\d*))?(?![\p{L}\d])/uy,
      ([letter, version, stage, count]) => {
        const parts = version!.split(".").map((part) => english.figures(part)).join(" point ");
        const suffix = stage === undefined
          ? ""
          : ` ${stage === "rc" ? "R C" : stage}${count && ` ${say(count)}`}`;
        return verbatim(`${letter ? `${letter} ` : ""}${parts}${suffix}`);
      },
    ),
    rule(
      /(?<=\b[vV]ersion )(\d+)\.([1-9]\d+)(?![\d.])/uy,
      ([major, minor]) => verbatim(`${say(major!)} point ${say(minor!)}`),
    ),
    rule(/(?<=\d\s?[x\u00d7]\s?)(\d{4})(?![\d.])/uy, ([size]) => verbatim(english.figures(size!))),
    rule(
      /(?<![\p{L}\d.])(\p{Lu})\.(\d{2,4})(?![\d.])/uy,
      ([letter, figures]) => verbatim(`${letter} ${english.figures(figures!)}`),
    ),
    // Names with figures: GPT-4o, Qwen2.5-7B, DDR5-5600, H2O, 4K, 221B.
    rule(
      /(?<![\p{L}\d])(\p{L}{1,12}(?:-?\d+(?:\.\d+)?\p{L}{0,8})(?:-?\d+(?:\.\d+)?\p{L}{0,8}|-\p{L}\d+){0,6})(?![\p{L}\d])/uy,
      ([name]) => /^\p{Ll}{2,}-/u.test(name!) ? undefined : verbatim(sayName(name!)),
    ),
    rule(
      /(?<![\p{L}\d.,])(\d{1,4}(?:\.\d+)?)(\p{L}{1,3}\d{0,3})(?![\p{L}\d'\u2019])/uy,
      ([figures, letters]) =>
        verbatim(
          `${figures!.includes(".") ? say(figures!) : english.figures(figures!)} ${
            sayName(letters!)
          }`,
        ),
    ),
    rule(/#\s?(?=\d)|\u2116\s?(?=\d)/uy, () => verbatim("number ")),
    rule(/\u00a7+\s?(?=\d)/uy, () => verbatim("section ")),
    rule(/(?<!\w)~(?=[$\u20ac\u00a3]?\d)/uy, () => verbatim("about ")),
    rule(/(?<=\d)\s*\*\s*(?=\d)/uy, () => verbatim(" times ")),
    rule(/(?<=\d)\+(?!\S)/uy, () => verbatim(" plus")),
    rule(/(?<![\p{L}\d.)\]])\+(?=\.?\d)/uy, () => verbatim("plus ")),
  ];

  function sayName(name: string): string {
    return name
      .replaceAll(/-(?=\d)/g, " ")
      .replaceAll(/(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, " ")
      .replaceAll(/\d+\.\d+/g, (figures) => say(figures))
      .replaceAll(/\d+/g, (figures) => english.figures(figures));
  }
}
