/**
 * The names of units and currencies, from a table of nouns.
 *
 * @module
 */
import { parseTable, replaceAll, type Replacements } from "./tables.ts";
import type { NumberWords } from "./number_words.ts";
import type { Amount, Gender, Measure, Money, Scale } from "./token.ts";

/** Knows the units and currencies of a language. */
export interface Lexicon {
  readonly units: readonly string[];
  readonly currencies: readonly string[];
  /** Whether it has names for areas and volumes. */
  readonly hasPowers: boolean;
  measure(token: Measure): string;
  money(token: Money): string;
  /** The bare noun of a unit. */
  noun(unit: string, isOne: boolean): string;
}

/**
 * Nouns are written `one|many|gender`: `heure|heures|f`. Without a gender they are masculine, without a second form
 * they do not change.
 */
export interface LexiconData {
  /** For plural rules. */
  readonly locale: string;
  /** Words for n, µ, m, c, d, h, k, M, G, T and P, in this order. */
  readonly prefixes: string;
  /** Units that take prefixes, by symbol: the prefixes, a blank, the noun. */
  readonly bases: string;
  /** Other units by symbol; several symbols have blanks between them. */
  readonly units: string;
  /** Currencies by sign or code: the noun, then `+`, then the noun of its hundredth. */
  readonly currencies: string;
  readonly scales: Readonly<Record<Scale, string>>;
  /** Areas and volumes: `{}` is the unit; several words are written as nouns are. */
  readonly powers: Readonly<Record<2 | 3, string>>;
  /** Powers of a unit behind a stroke or of time, where they differ: `meters per second squared`. */
  readonly timePowers?: Readonly<Record<2 | 3, string>>;
  /** A rate: `{}` is the unit; for single units by their symbol. */
  readonly per: Readonly<Record<string, string>>;
  /** What the noun of a rate may be beside units: `$5/mo`. */
  readonly periods?: Readonly<Record<string, string>>;
  /** Between the whole part and the hundredths of an amount of money. */
  readonly andCents: string;
  /** Whether the noun of the hundredths is said. */
  readonly saysCents?: boolean;
  /** Between a word for a great number and a noun: `millions d'euros`. */
  readonly link?: (noun: string) => string;
  readonly to: string;
  /** Changes where a number and its noun meet: `un'ora`. */
  readonly elisions?: Replacements;
}

interface Noun {
  readonly one: string;
  readonly many: string;
  readonly gender: Gender;
}

const PREFIXES = ["n", "\u00b5", "m", "c", "d", "h", "k", "M", "G", "T", "P"];
const GENDERS: Readonly<Record<string, Gender>> = {
  f: "feminine",
  m: "masculine",
  n: "neuter",
};
/** Words after which a noun is linked, since they are nouns themselves. */
const GREAT = /(?:ill?i?|ilh)(?:on|one|oni|ones|ons|ón|ão|ões|ard|ards|ardo|ardi)$/;

function readNoun(written: string): Noun {
  const [one = "", many = one, gender = "m"] = written.split("|");
  return { one, many: many || one, gender: GENDERS[gender]! };
}

/** A lexicon of a table. */
export class TableLexicon implements Lexicon {
  readonly units: readonly string[];
  readonly currencies: readonly string[];
  readonly hasPowers = true;
  readonly #data: LexiconData;
  readonly #numbers: NumberWords;
  readonly #units = new Map<string, Noun>();
  readonly #currencies = new Map<string, readonly [Noun, Noun | undefined]>();
  readonly #plurals: Intl.PluralRules;

  constructor(data: LexiconData, numbers: NumberWords) {
    this.#data = data;
    this.#numbers = numbers;
    this.#plurals = new Intl.PluralRules(data.locale);
    this.#readUnits(data);
    for (const [signs, nouns] of parseTable(data.currencies)) {
      const [main, hundredth] = nouns.split("+");
      const both = [readNoun(main!), hundredth && readNoun(hundredth)] as const;
      for (const sign of signs.split(" ")) {
        this.#currencies.set(sign, [both[0], both[1] || undefined]);
      }
    }
    this.units = [...this.#units.keys()];
    this.currencies = [...this.#currencies.keys()];
  }

  #readUnits({ bases, units, prefixes }: LexiconData) {
    const words = prefixes.split(" ");
    for (const [symbol, entry] of parseTable(bases)) {
      const [letters = "", ...rest] = entry.split(" ");
      const { one, many, gender } = readNoun(rest.join(" "));
      const isCapital = /^\p{Lu}/u.test(one);
      const add = (prefix: string, word: string) => {
        const compound = (noun: string) => {
          const joined = word + noun.toLowerCase();
          return isCapital ? joined[0]!.toUpperCase() + joined.slice(1) : joined;
        };
        this.#units.set(prefix + symbol, { one: compound(one), many: compound(many), gender });
      };
      this.#units.set(symbol, { one, many, gender });
      for (const letter of letters === "-" ? "" : letters) {
        add(letter, words[PREFIXES.indexOf(letter)]!);
        if (letter === "\u00b5") add("\u03bc", words[1]!);
      }
    }
    for (const [symbols, noun] of parseTable(units)) {
      for (const symbol of symbols.split(" ")) {
        this.#units.set(symbol.replaceAll("_", " "), readNoun(noun));
      }
    }
  }

  measure(token: Measure): string {
    const { amount, last, unit, power, per, perPower, isAttributive } = token;
    const noun = this.#raise(this.#units.get(unit)!, unit, power);
    const rate = per === undefined ? "" : ` ${this.#rate(per, perPower)}`;
    if (isAttributive) return `${this.#number(amount, noun.gender)}-${noun.one}`;
    return this.#count(amount, { last, noun }) + rate;
  }

  noun(unit: string, isOne: boolean): string {
    const { one, many } = this.#units.get(unit)!;
    return isOne ? one : many;
  }

  money({ amount, last, currency, per }: Money): string {
    const [noun, cent] = this.#currencies.get(currency)!;
    const rate = per === undefined ? "" : ` ${this.#rate(per)}`;
    const [whole = "0", decimals = ""] = amount.digits.split(".");
    const isWhole = /^0*$/.test(decimals);
    if (amount.scale !== undefined || last !== undefined || !isWhole && decimals.length > 2) {
      return this.#count(amount, { last, noun }) + rate;
    }
    const main = this.#count({ ...amount, digits: whole }, { noun });
    if (isWhole) return main + rate;
    if (cent === undefined) return this.#count(amount, { noun }) + rate;
    const cents = this.#cents(decimals, cent, Number(whole) === 0);
    if (Number(whole) !== 0) return main + this.#data.andCents + cents + rate;
    return (amount.isNegative ? this.#numbers.negative(cents) : cents) + rate;
  }

  #cents(decimals: string, noun: Noun, isAlone: boolean): string {
    const digits = String(Number(decimals.padEnd(2, "0")));
    const isSaid = this.#data.saysCents || isAlone;
    return isSaid
      ? this.#count({ isNegative: false, digits }, { noun })
      : this.#numbers.cardinal(digits);
  }

  /** The noun of a unit's area or volume. */
  #raise(noun: Noun, unit: string, power: 2 | 3 | undefined): Noun {
    if (power === undefined) return noun;
    const isTime = /^(?:[nµm]?s|h|min)$/.test(unit);
    const { powers, timePowers = powers } = this.#data;
    const { one, many } = readNoun((isTime ? timePowers : powers)[power]);
    const raise = (pattern: string, name: string) =>
      // A part of the noun: Quadratmeter.
      pattern.replace("{}", /\p{L}\{\}/u.test(pattern) ? name.toLowerCase() : name);
    return { one: raise(one, noun.one), many: raise(many, noun.many), gender: noun.gender };
  }

  #rate(per: string, power?: 2 | 3): string {
    const { per: rates, periods = {} } = this.#data;
    const own = power === undefined ? rates[per] : undefined;
    if (own !== undefined) return own;
    const unit = this.#units.get(per);
    const name = unit === undefined ? periods[per] ?? per : this.#raise(unit, per, power).one;
    return rates["{}"]!.replace("{}", name);
  }

  /** A number, or a range, and its noun. */
  #count(
    amount: Amount,
    { last, noun }: { readonly last?: Amount | undefined; readonly noun: Noun },
  ): string {
    const first = last === undefined
      ? ""
      : `${this.#number({ ...amount, scale: undefined }, noun.gender)} ${this.#data.to} `;
    const end = last ?? amount;
    const number = this.#number(end, noun.gender);
    const isOne = end.scale === undefined && last === undefined && this.#isOne(end.digits);
    const name = isOne ? noun.one : noun.many;
    const link = this.#data.link;
    const isGreat = link !== undefined && GREAT.test(number);
    const counted = number + (isGreat ? link(name) : ` ${name}`);
    return first + replaceAll(counted, this.#data.elisions);
  }

  #isOne(digits: string): boolean {
    const decimals = digits.split(".")[1]?.length ?? 0;
    if (decimals === 0) return this.#plurals.select(Number(digits)) === "one";
    const rules = new Intl.PluralRules(this.#data.locale, {
      minimumFractionDigits: Math.min(20, decimals),
    });
    return rules.select(Number(digits)) === "one";
  }

  #number({ digits, isNegative, scale }: Amount, gender: Gender): string {
    const scaleNoun = scale === undefined ? undefined : readNoun(this.#data.scales[scale]);
    const number = this.#numbers.cardinal(digits, scaleNoun?.gender ?? gender);
    const said = scaleNoun === undefined
      ? number
      : `${number} ${this.#isOne(digits) ? scaleNoun.one : scaleNoun.many}`;
    return isNegative ? this.#numbers.negative(said) : said;
  }
}
