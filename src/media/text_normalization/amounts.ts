/**
 * Recognises and verbalizes money, measures and fractions.
 *
 * @module
 */
import { NAMELESS, type Noun, type Nouns, stripNumber } from "./nouns.ts";
import {
  type DecimalSign,
  makeNumberPattern,
  matchAny,
  type NumberWords,
  readNumber,
  replaceEach,
} from "./numbers.ts";
import { type Condition, type Fields, type Rule, rule, tag } from "./token.ts";

/** The start of an amount: no letter, digit or decimal sign precedes it, unless it is the second number of a size. */
const START = String.raw`(?:(?<=\d\s?[x\u00d7])|(?<![\p{L}\d]|\d[.,:/]))`;
const MINUS = String.raw`(?:(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;])[-\u2212])`;
const RANGE = String.raw`(?:\s?[-\u2013]\s?|\s\u2013\s)`;
const POWER = String.raw`\^?[23](?!\d)|[\u00b2\u00b3]`;
/** A dash in place of cents: `250.\u2013`. */
const NO_CENTS = String.raw`(?:[.,]?[\u2013-](?![\w$\u20ac\u00a3\u00a5]))`;

/** Makes the rules for amounts with a currency's symbol or code before or after them. */
export function makeMoneyRules(nouns: Nouns, decimalSign: DecimalSign): Rule[] {
  const currency = `(?<currency>${matchAny(nouns.currencies.keys())})`;
  const number = makeNumberPattern(decimalSign, { isMoney: true });
  const scales = matchAny(nouns.scales.keys());
  const scale = String.raw`(?:[\s-]?(?<scale>${scales})(?![\p{L}\d]))?`;
  const last = String.raw`${RANGE}(?<last>${number})`;
  const per = String.raw`(?:\s?\/\s?(?<per>\p{L}+))?`;
  // A symbol right after capital letters is part of another currency's symbol: R$5.
  const sign = String
    .raw`(?<!\d)(?:(?<minus>${MINUS}|^[-\u2212])?(?<![A-Z])${currency}\s?|(?<![A-Z])${currency}\s?(?<minus>[-\u2212]))`;
  const end = String.raw`(?:${last}${scale.replace("scale", "lastScale")}(?![\d.,]*[-\d]))?`;
  const isOneScale: Condition = ({ last, scale, lastScale }) =>
    last === undefined || scale === undefined || scale === lastScale;
  return [
    rule("money", {}, isOneScale)`${sign}(?<number>${number})${scale}${NO_CENTS}?${end}${per}`,
    rule(
      "money",
    )`${START}(?<minus>${MINUS})?(?<number>${number})(?:${last})?${scale}${NO_CENTS}?\s?${currency}(?![\d\p{L}])${per}`,
  ];
}

/** Makes the rules for numbers and ranges with units. */
export function makeMeasureRules(
  nouns: Nouns,
  { decimalSign, words, codes }: {
    readonly decimalSign: DecimalSign;
    /** Symbols that are also words, and need a space before them: `5 in`. */
    readonly words: readonly string[];
    /** Symbols that end a name if no space precedes them: `Room 4B`. */
    readonly codes: readonly string[];
  },
): Rule[] {
  const unit = matchAny(nouns.units.keys());
  const number = makeNumberPattern(decimalSign);
  const amount = String.raw`(?<minus>${MINUS})?(?<number>${number})(?:${RANGE}(?<last>${number}))?`;
  const per = matchAny([...nouns.units.keys(), ...Object.keys(nouns.periods)]);
  const rate = String.raw`(?:\s?\/\s?(?<per>${per})(?<perPower>${POWER})?)?`;
  // "5 m'ont" does not mean metres. A slash must be followed by a unit or a period of time.
  const end = String
    .raw`(?![\p{L}\d\u00b2\u00b3]|['\u2019]\p{L}|\/(?!(?:${per})\b)\p{L})(?:\.(?=\s\p{Ll}))?`;
  const isMeasure: Condition = ({ number, last, hyphen, unit = "", per }, { before }) => {
    const isJoined = hyphen === "";
    if (words.includes(unit) && (!isJoined || last !== undefined)) return false;
    if (codes.includes(unit) && hyphen !== " " && per === undefined) return false;
    if (hyphen === "-" && (last !== undefined || /[-\u2013]$/.test(before))) return false;
    // Excludes names such as 5s and 1990s.
    return unit !== "s" || !isJoined || per !== undefined || /[.,]/.test(number!);
  };
  return [
    rule(
      "measure",
      {},
      isMeasure,
    )`${START}${amount}(?<hyphen>[\s-]?)(?<unit>${unit})(?<power>${POWER})?${rate}${end}`,
    // Turkish and some other languages put the sign first: %5.
    rule("measure", { unit: "%" })`(?<![\p{L}\d])%\s?(?<number>${number})`,
  ];
}

const isSmallFraction: Condition = ({ numerator, denominator }) =>
  Number(numerator) < Number(denominator) && Number(denominator) <= 10;

/** Makes the rules for fraction characters, and for numbers with a slash. `isFraction` excludes dates and names. */
export function makeFractionRules(nouns: Nouns, isFraction: Condition = isSmallFraction): Rule[] {
  const units = [...nouns.units.keys()].filter((unit) => /^(?!(?:in|d)$)[a-z ]{1,4}$/i.test(unit));
  const unit = String.raw`(?:[ -]?(?<unit>${matchAny(units)})(?![\p{L}\d'/])(?:\.(?=\s\p{Ll}))?)?`;
  const above = String.raw`(?<![\d/.,\p{L}-])(?:(?<whole>\d+)[ -])?(?<numerator>[1-9]\d?)`;
  const below = String.raw`(?<denominator>[1-9]\d{0,3})(?![\d/]|[.,]\d)`;
  return [
    tag.fraction`(?<![\d.,])(?:(?<whole>\d+)\s?)?(?<vulgar>[\u00bc-\u00be\u2150-\u215e])${unit}`,
    tag.fraction`${above}\u2044${below}${unit}`,
    rule("fraction", {}, isFraction)`${above}\/${below}${unit}`,
  ];
}

/** A language's words for fractions. */
export interface FractionWords {
  /** The word between a whole number and a fraction. */
  readonly and: string;
  /** The word in place of `and` before one half. */
  readonly andHalf?: string;
  /** The words for half of something, in both genders. */
  readonly half: readonly string[];
  /** Words for parts whose names are not ordinals: singular and plural. */
  readonly names: Readonly<Record<string, readonly string[]>>;
}

/** Number words that are nouns, and are linked to the noun after them: "millions d'euros". */
const GREAT = /(?:ill?i?|ilh)(?:on|one|oni|ones|ons|ón|ão|ões|ard|ards|ardo|ardi)$/;
/** Currencies whose amounts are not grouped by points, unless the language groups by points. */
const COMMA_GROUPED = /[$\u00a3\u00a5\u20b9]/;

/** Verbalizes amounts in one language. */
export class AmountWords {
  readonly numbers: NumberWords;
  readonly nouns: Nouns;

  constructor(numbers: NumberWords, nouns: Nouns) {
    this.numbers = numbers;
    this.nouns = nouns;
  }

  /** A number, perhaps with a word for a power of ten: `3 million`. */
  cardinal({ number, minus, scale }: Fields, noun?: Pick<Noun, "gender">): string {
    return this.#number({ digits: this.#read(number!), minus, scale }, noun);
  }

  /** A number or a range with its unit; only the unit if there is no number. */
  measure(fields: Fields): string {
    const { number, last, minus, hyphen } = fields;
    const noun = this.nouns.unit(fields);
    if (number === undefined) return stripNumber(noun.inflect("2"));
    const digits = this.#read(number);
    if (hyphen !== "-") return this.#count(noun, { digits, minus, last: last && this.#read(last) });
    return `${this.#number({ digits, minus }, noun)}-${stripNumber(noun.inflect("1"))}`;
  }

  /** An amount of money, or a range; words such as "per hour" come last. */
  money({ number, last, minus, scale, lastScale, currency, per }: Fields): string {
    const [main = NAMELESS, cent] = this.nouns.currencies.get(currency!) ?? [];
    const rate = per === undefined ? "" : ` ${this.nouns.rate(per)}`;
    const hasPointGroups = !COMMA_GROUPED.test(currency!);
    const digits = this.#read(number!, hasPointGroups);
    if (last !== undefined) {
      const end = this.#read(last, hasPointGroups);
      return this.#count(main, { digits, minus, last: end, scale: lastScale ?? scale }) + rate;
    }
    const [whole = "0", decimals = ""] = digits.split(".");
    const isWhole = /^0*$/.test(decimals);
    if (isWhole || scale !== undefined || decimals.length > 2 || cent === undefined) {
      return this.#count(main, { digits: isWhole ? whole : digits, minus, scale }) + rate;
    }
    const hundredths = String(Number(decimals.padEnd(2, "0")));
    const cents = this.#count(cent, { digits: hundredths });
    if (Number(whole) === 0 && cent !== NAMELESS) {
      return (minus ? `${this.numbers.style.minus} ${cents}` : cents) + rate;
    }
    const { andCents, saysCents } = this.numbers.style;
    const end = saysCents ? cents : this.numbers.cardinal(hundredths);
    return this.#count(main, { digits: whole, minus }) + andCents + end + rate;
  }

  /** A fraction; its denominator is an ordinal unless it has a name. A unit may follow. */
  fraction(
    { whole, vulgar, unit, numerator, denominator }: Fields,
    { and, andHalf = and, half, names }: FractionWords,
    isFeminine = false,
  ): string {
    const [above = "", below = ""] = vulgar?.normalize("NFKD").split("\u2044") ??
      [numerator, denominator];
    const noun = unit === undefined ? undefined : this.nouns.unit({ unit });
    const name = noun?.inflect(whole === undefined ? "1" : "2").replace("{}", "") ?? "";
    if (above === "1" && below === "2") {
      // German writes this as one word: zweieinhalb.
      const count = whole && this.numbers.cardinal(whole, andHalf === "" ? "masculine" : undefined);
      const one = isFeminine || noun?.gender === "feminine" ? half[1] : half[0];
      return (count ? count + andHalf : "") + one + name;
    }
    const some = whole === undefined ? "" : this.numbers.cardinal(whole) + and;
    const ordinal = this.numbers.ordinal(below);
    const [one, many = one] = names[below] ?? [ordinal, `${ordinal}s`];
    return `${some}${this.numbers.cardinal(above, "masculine")} ${
      above === "1" ? one : many
    }${name}`;
  }

  #read(written: string, hasPointGroups = false): string {
    return readNumber(written, this.numbers.style.decimalSign, hasPointGroups);
  }

  /** A number or a range with its noun; `digits` and `last` are ASCII digits, perhaps with a decimal point. */
  #count(noun: Noun, amount: Fields): string {
    const { digits = "", last, minus, scale } = amount;
    const { to = "-", link, elisions } = this.numbers.style;
    const end = this.#number(last === undefined ? amount : { digits: last, scale }, noun);
    const start = last === undefined ? "" : `${this.#number({ digits, minus }, noun)} ${to} `;
    const form = noun.inflect(scale === undefined ? last ?? digits : "2");
    const linked = link !== undefined && GREAT.test(end) ? form.replace("{}", `{} ${link}`) : form;
    return replaceEach(linked.replace("{}", start + end), elisions);
  }

  #number({ digits = "", minus, scale }: Fields, noun?: Pick<Noun, "gender">): string {
    const power = scale === undefined ? undefined : this.nouns.scales.get(scale);
    const number = this.numbers.cardinal(digits, (power ?? noun)?.gender);
    const said = power === undefined ? number : power.inflect(digits).replace("{}", number);
    return minus ? `${this.numbers.style.minus} ${said}` : said;
  }
}
