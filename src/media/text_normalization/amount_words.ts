/**
 * Says numbers with nouns: money, measures, great numbers in short.
 *
 * @module
 */
import { NAMELESS, type Noun, type Nouns, stripNumber } from "./nouns.ts";
import { type NumberWords, readNumber, replaceEach } from "./numbers.ts";
import type { Fields } from "./token.ts";

/** ASCII digits, perhaps with a point, and what stands around them. */
interface Amount {
  readonly digits: string;
  readonly last?: string | undefined;
  readonly minus?: string | undefined;
  readonly scale?: string | undefined;
}

/** Words after which a noun is linked, since they are nouns themselves: "millions d'euros". */
const GREAT = /(?:ill?i?|ilh)(?:on|one|oni|ones|ons|ón|ão|ões|ard|ards|ardo|ardi)$/;
/** Currencies whose amounts have no points between groups, unless the language has them. */
const COMMA_GROUPED = /[$\u00a3\u00a5\u20b9]/;

/** Says amounts in one language. */
export class AmountWords {
  readonly #numbers: NumberWords;
  readonly #nouns: Nouns;

  constructor(numbers: NumberWords, nouns: Nouns) {
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
    if (number === undefined) return stripNumber(this.#nouns.inflect(noun, "2"));
    const digits = this.#read(number);
    if (hyphen !== "-") return this.#count(noun, { digits, minus, last: last && this.#read(last) });
    return `${this.#number({ digits, minus }, noun)}-${
      stripNumber(this.#nouns.inflect(noun, "1"))
    }`;
  }

  /** An amount of money, or a range; what it is for comes last: "per hour". */
  money({ number, last, minus, scale, lastScale, currency, per }: Fields): string {
    const [main = NAMELESS, cent] = this.#nouns.currencies.get(currency!) ?? [];
    const rate = per === undefined ? "" : ` ${this.#nouns.rate(per)}`;
    const hasPointGroups = !COMMA_GROUPED.test(currency!);
    const digits = this.#read(number!, hasPointGroups);
    if (last !== undefined) {
      const end = this.#read(last, hasPointGroups);
      return this.#count(main, { digits, minus, last: end, scale: lastScale ?? scale }) + rate;
    }
    const [whole = "0", decimals = ""] = digits.split(".");
    const isWhole = /^0*$/.test(decimals);
    if (isWhole) return this.#count(main, { digits: whole, minus, scale }) + rate;
    if (scale !== undefined || decimals.length > 2 || cent === undefined) {
      return this.#count(main, { digits, minus, scale }) + rate;
    }
    const hundredths = String(Number(decimals.padEnd(2, "0")));
    const cents = this.#count(cent, { digits: hundredths });
    if (Number(whole) === 0 && cent !== NAMELESS) {
      return (minus ? this.#numbers.negative(cents) : cents) + rate;
    }
    const { andCents, saysCents } = this.#numbers.style;
    const end = saysCents ? cents : this.#numbers.cardinal(hundredths);
    return this.#count(main, { digits: whole, minus }) + andCents + end + rate;
  }

  #read(written: string, hasPointGroups = false): string {
    return readNumber(written, this.#numbers.style.decimalSign, hasPointGroups);
  }

  /** A number, or a range, and its noun. */
  #count(noun: Noun, amount: Amount): string {
    const { digits, last, minus, scale } = amount;
    const { to = "-", link, elisions } = this.#numbers.style;
    const end = this.#number(last === undefined ? amount : { digits: last, scale }, noun);
    const start = last === undefined ? "" : `${this.#number({ digits, minus }, noun)} ${to} `;
    const form = this.#nouns.inflect(noun, scale === undefined ? last ?? digits : "2");
    const linked = link !== undefined && GREAT.test(end) ? form.replace("{}", `{} ${link}`) : form;
    return replaceEach(linked.replace("{}", start + end), elisions);
  }

  #number({ digits, minus, scale }: Amount, noun?: Noun): string {
    const power = scale === undefined ? undefined : this.#nouns.scales.get(scale);
    const number = this.#numbers.cardinal(digits, (power ?? noun)?.gender);
    const said = power === undefined
      ? number
      : this.#nouns.inflect(power, digits).replace("{}", number);
    return minus ? this.#numbers.negative(said) : said;
  }
}
