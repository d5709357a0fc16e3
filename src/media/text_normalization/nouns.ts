/**
 * Names of units, currencies and powers of ten, from tables or from `Intl`.
 *
 * @module
 */
import type { Gender } from "./numbers.ts";
import type { Fields } from "./token.ts";

/** A noun that is counted. */
export interface Noun {
  readonly gender?: Gender | undefined;
  /** Inflects the noun for a count in ASCII digits, with `{}` for the number: "{} euros". */
  readonly inflect: (digits: string) => string;
}

/** Used for unknown nouns: only the number is said. */
export const NAMELESS: Noun = { inflect: () => "{}" };

/** Words by their spelling in texts. */
export type Table = Readonly<Record<string, string>>;

/**
 * The nouns of a language as tables, in the format `one|many|gender|prefixes`: `seconde|secondes|f|nµm`. Masculine is
 * the default gender; without a plural, the noun does not change; prefixes are letters that may precede the symbol.
 * Several symbols of one noun are separated by spaces; a space in a symbol is an underscore.
 */
export interface NounTables {
  readonly units: Table;
  /** Words for prefixes, by letter. */
  readonly prefixes: Table;
  /** The noun, perhaps followed by the noun for its hundredth. */
  readonly currencies: Readonly<Record<string, readonly string[]>>;
  /** Words for powers of ten, by word or letter: `million`, `k`. */
  readonly scales: Table;
  /** Words for areas and volumes; `{}` is the unit. */
  readonly powers: Table;
  /** Words for a unit after a slash; `{}` is the unit. Some units have words of their own. */
  readonly per: Table;
  /** Nouns that are not units but may follow a slash like one: `night`. */
  readonly periods?: Table;
}

/** The symbols of units and currencies, separated by spaces, by their names in `Intl.NumberFormat`. */
export type IntlSymbols = Readonly<Record<"units" | "currencies", Table>>;

const GENDERS: Readonly<Record<string, Gender>> = { f: "feminine", m: "masculine", n: "neuter" };

/** Removes the number from an inflected noun. */
export const stripNumber = (form: string): string => form.replace("{} ", "");

/** Reads a table in which a key may be several symbols. */
function readSymbols<T>(table: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(table).flatMap(([symbols, value]) =>
    symbols.split(" ").map((symbol): [string, T] => [symbol.replaceAll("_", " "), value])
  );
}

/** The nouns of a language, by the symbols that texts use. */
export class Nouns {
  readonly units: ReadonlyMap<string, Noun>;
  readonly currencies: ReadonlyMap<string, readonly Noun[]>;
  readonly scales: ReadonlyMap<string, Noun>;
  readonly periods: Table;
  readonly #locale: string;
  readonly #tables: NounTables;

  /** @param symbols for `Intl`, if the tables have no units. */
  constructor(locale: string, tables: NounTables, symbols?: IntlSymbols) {
    this.#locale = locale;
    this.#tables = tables;
    this.periods = tables.periods ?? {};
    this.scales = new Map(readSymbols(tables.scales).map(([key, noun]) => [key, this.#read(noun)]));
    this.units = new Map([
      ...readSymbols(tables.units).flatMap(([symbol, noun]) => this.#readUnit(symbol, noun)),
      ...symbols === undefined ? [] : readIntlUnits(locale, symbols),
    ]);
    this.currencies = new Map([
      ...readSymbols(tables.currencies).map(([sign, nouns]) =>
        [sign, nouns.map((noun) => this.#read(noun))] as const
      ),
      ...symbols === undefined ? [] : readIntlCurrencies(locale, symbols),
    ]);
  }

  /** A unit with its power, and with the unit after a slash. */
  unit({ unit, power, per, perPower }: Fields): Noun {
    const noun = this.#raise(unit!, power);
    return per === undefined ? noun : this.#compound(`{} ${this.rate(per, perPower)}`, noun);
  }

  /** Words for a unit after a slash: "per kilogram". */
  rate(per: string, power?: string): string {
    const rates = this.#tables.per;
    const own = rates[per + (power === undefined ? "" : readPower(power))];
    const name = this.units.has(per)
      ? stripNumber(this.#raise(per, power).inflect("1"))
      : this.periods[per] ?? per;
    return own ?? rates["*"]!.replace("{}", name);
  }

  #raise(unit: string, power: string | undefined): Noun {
    const noun = this.units.get(unit)!;
    const { powers } = this.#tables;
    return power === undefined ? noun : this.#compound(powers[readPower(power)]!, noun);
  }

  #read(written: string): Noun {
    const [one, many, gender] = written.split("|");
    const inflect = (digits: string) => `{} ${this.#isOne(digits) ? one : many || one}`;
    return { gender: GENDERS[gender || "m"], inflect };
  }

  /** A unit by itself and with each of its prefixes. */
  #readUnit(symbol: string, written: string): [string, Noun][] {
    const noun = this.#read(written);
    const letters = [...written.split("|")[3] ?? ""];
    const prefix = (letter: string) => this.#compound(`${this.#tables.prefixes[letter]}{}`, noun);
    return [
      [symbol, noun],
      ...letters.map((each): [string, Noun] => [each + symbol, prefix(each)]),
    ];
  }

  /** Inserts a noun for `{}` in a pattern `one|many`, even within a word: Quadratmeter. */
  #compound(pattern: string, { gender, inflect }: Noun): Noun {
    const [one = "", many = one] = pattern.split("|");
    const fill = (digits: string) => {
      const part = this.#isOne(digits) ? one : many;
      const name = stripNumber(inflect(digits));
      return `{} ${part.replace("{}", /^\p{L}+\{\}/u.test(part) ? name.toLowerCase() : name)}`;
    };
    return { gender, inflect: fill };
  }

  #isOne(digits: string): boolean {
    const decimals = Math.min(20, digits.split(".")[1]?.length ?? 0);
    const rules = new Intl.PluralRules(this.#locale, { minimumFractionDigits: decimals });
    return rules.select(Number(digits)) === "one";
  }
}

const readPower = (written: string) => /[2\u00b2]/.test(written) ? "2" : "3";

/** Reads a noun from how `Intl` writes it with numbers. */
function readIntlNoun(locale: string, options: Intl.NumberFormatOptions): Noun {
  const digits = { numberingSystem: "latn", minimumFractionDigits: 0, maximumFractionDigits: 20 };
  const format = new Intl.NumberFormat(locale, { ...digits, ...options });
  const inflect = (count: string) =>
    format.formatToParts(Number(count))
      .map(({ type, value }) => /^(?:integer|group|decimal|fraction)$/.test(type) ? "{}" : value)
      .join("").replace(/(?:\{\})+/, "{}");
  return { inflect };
}

/** Reads units by their common symbols, and by the symbol that the language itself uses. */
function readIntlUnits(locale: string, { units }: IntlSymbols): [string, Noun][] {
  return Object.entries(units).flatMap(([unit, symbols]) => {
    const noun = readIntlNoun(locale, { style: "unit", unit, unitDisplay: "long" });
    const format = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short" });
    const own = format.formatToParts(5).find(({ type }) => type === "unit")?.value ?? "";
    const all = /^\p{L}+(?:\/\p{L}+)?$/u.test(own) ? `${own} ${symbols}` : symbols;
    return all.split(" ").map((symbol): [string, Noun] => [symbol, noun]);
  });
}

function readIntlCurrencies(locale: string, { currencies }: IntlSymbols): [string, Noun[]][] {
  return Object.entries(currencies).flatMap(([currency, signs]) => {
    const noun = readIntlNoun(locale, { style: "currency", currency, currencyDisplay: "name" });
    return signs.split(" ").map((symbol): [string, Noun[]] => [symbol, [noun, NAMELESS]]);
  });
}
