/**
 * Says numbers with nouns: money, measures, great numbers in short.
 *
 * @module
 */
import { NAMELESS, type Noun, type Nouns } from "./nouns.ts";
import { type NumberWords, readNumber, replaceEach, type Replacements } from "./numbers.ts";
import type { Fields } from "./token.ts";

/** How a language joins numbers and nouns. */
export interface AmountStyle {
  /** Between the ends of a range. */
  readonly to?: string | undefined;
  /** Between the whole part and the hundredths of an amount of money. */
  readonly andCents: string;
  /** Whether the noun of the hundredths is said. */
  readonly saysCents?: boolean;
  /** Between a word for a great number and a noun: "millions d'euros". */
  readonly link?: (noun: string) => string;
  /** Changes where a number and its noun meet: "un'ora". */
  readonly elisions?: Replacements;
}

/** ASCII digits, perhaps with a point, and what stands around them. */
interface Amount {
  readonly digits: string;
  readonly last?: string | undefined;
  readonly minus?: string | undefined;
  readonly scale?: string | undefined;
}

/** Words after which a noun is linked, since they are nouns themselves. */
const GREAT = /(?:ill?i?|ilh)(?:on|one|oni|ones|ons|ón|ão|ões|ard|ards|ardo|ardi)$/;
/** Currencies whose amounts have no points between groups, unless the language has them. */
const COMMA_GROUPED = /[$\u00a3\u00a5\u20b9]/;

/** Says amounts in one language. */
export class AmountWords {
  readonly #numbers: NumberWords;
  readonly #nouns: Nouns;
  readonly #style: AmountStyle;

  constructor(
    style: AmountStyle,
    { numbers, nouns }: { readonly numbers: NumberWords; readonly nouns: Nouns },
  ) {
    this.#style = style;
    this.#numbers = numbers;
    this.#nouns = nouns;
  }

  /** A number, perhaps with a word for a power of ten: `3 million`. */
  cardinal({ number, minus, scale }: Fields): string {
    return this.#number({ digits: this.#read(number!), minus, scale });
  }

  /** A number or a range with its unit; without a number, the unit. */
  measure(fields: Fields): string {
    const { number, last, minus, hyphen } = fields;
    const noun = this.#nouns.unit(fields);
    if (number === undefined) return noun.inflect("2").replace("{} ", "");
    const digits = this.#read(number);
    if (hyphen === "-") {
      return noun.inflect("1").replace("{} ", `${this.#number({ digits, minus }, noun)}-`);
    }
    return this.#count(noun, { digits, minus, last: last && this.#read(last) });
  }

  /** An amount of money, or a range; what it is for comes last: "per hour". */
  money({ number, last, minus, scale, lastScale, currency, per }: Fields): string {
    const { main, cent } = this.#nouns.currency(currency!);
    const rate = per === undefined ? "" : this.#nouns.rate(per);
    const hasPointGroups = !COMMA_GROUPED.test(currency!) || undefined;
    const digits = this.#read(number!, hasPointGroups);
    if (last !== undefined) {
      const end = this.#read(last, hasPointGroups);
      return this.#count(main, { digits, minus, last: end, scale: lastScale ?? scale }) + rate;
    }
    const [whole = "0", decimals = ""] = digits.split(".");
    const isWhole = /^0*$/.test(decimals);
    const isUndivided = scale !== undefined || decimals.length > 2 || cent === undefined;
    if (isUndivided && !isWhole) return this.#count(main, { digits, minus, scale }) + rate;
    const euros = this.#count(main, { digits: whole, minus, scale });
    if (isWhole) return euros + rate;
    const hundredths = String(Number(decimals.padEnd(2, "0")));
    const cents = this.#count(cent!, { digits: hundredths });
    if (Number(whole) === 0 && cent !== NAMELESS) {
      return (minus ? this.#numbers.negative(cents) : cents) + rate;
    }
    const { andCents, saysCents } = this.#style;
    return euros + andCents + (saysCents ? cents : this.#numbers.cardinal(hundredths)) + rate;
  }

  #read(written: string, hasPointGroups?: true): string {
    const { decimalSign } = this.#numbers.style;
    return readNumber(written, decimalSign, hasPointGroups && { hasPointGroups });
  }

  /** A number, or a range, and its noun. */
  #count(noun: Noun, amount: Amount): string {
    const { digits, last, minus, scale } = amount;
    const { to = "-", link, elisions } = this.#style;
    const end = this.#number(last === undefined ? amount : { digits: last, scale }, noun);
    const number = last === undefined
      ? end
      : `${this.#number({ digits, minus }, noun)} ${to} ${end}`;
    const isGreat = link !== undefined && GREAT.test(number);
    const counted = noun.inflect(scale === undefined ? last ?? digits : "2");
    const said = isGreat ? counted.replace(/\{\} (.*)/, (_, name) => `{}${link(name)}`) : counted;
    return replaceEach(said.replace("{}", number), elisions);
  }

  #number({ digits, minus, scale }: Amount, noun?: Noun): string {
    const power = scale === undefined ? undefined : this.#nouns.scale(scale);
    const number = this.#numbers.cardinal(digits, (power ?? noun)?.gender);
    const said = power === undefined ? number : power.inflect(digits).replace("{}", number);
    return minus ? this.#numbers.negative(said) : said;
  }
}
