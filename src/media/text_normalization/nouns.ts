/**
 * The names of units, currencies and powers of ten.
 *
 * @module
 */
import type { Gender } from "./numbers.ts";
import type { Fields } from "./token.ts";

/** A noun that is counted. */
export interface Noun {
  readonly gender?: Gender | undefined;
  /** The noun, and `{}` in the place of the number, in the form for a count of ASCII digits: "{} euros". */
  readonly inflect: (digits: string) => string;
}

/** Stands for a noun that is not known: the number alone is said. */
export const NAMELESS: Noun = { inflect: () => "{}" };

/** The nouns of a language, by the symbols that texts have for them. */
export interface Nouns {
  readonly units: readonly string[];
  readonly currencies: readonly string[];
  /** Words and letters for powers of ten: `million`, `k`. */
  readonly scales: readonly string[];
  /** What is not a unit, but may stand behind a stroke as one: `night`. */
  readonly periods: readonly string[];
  /** A unit with its power, and with the unit behind a stroke. */
  unit(fields: Fields): Noun;
  /** A currency and its hundredth. */
  currency(sign: string): { readonly main: Noun; readonly cent?: Noun | undefined };
  scale(written: string): Noun;
  /** Words for a unit behind a stroke: " per kilogram". */
  rate(per: string, power?: string): string;
}

/**
 * The nouns of a language as tables. They are written `one|many|gender`: `heure|heures|f`. Without a gender they are
 * masculine, without a second form they do not change. Symbols of one noun have blanks between them, and underlines for
 * blanks in them.
 */
export interface NounTables {
  readonly units: Readonly<Record<string, string>>;
  /** Words for prefixes by their letter. */
  readonly prefixes: Readonly<Record<string, string>>;
  /** Units that take prefixes: the noun, and the prefixes' letters. */
  readonly prefixed: Readonly<Record<string, readonly string[]>>;
  /** The noun, perhaps with that of its hundredth. */
  readonly currencies: Readonly<Record<string, readonly string[]>>;
  readonly scales: Readonly<Record<string, string>>;
  /** Areas and volumes: `{}` is the unit. */
  readonly powers: Readonly<Record<string, string>>;
  /** The same of units of time, where they differ: "meters per second squared". */
  readonly timePowers?: Readonly<Record<string, string>>;
  /** A rate: `{}` is the unit; for single units by their symbol. */
  readonly per: Readonly<Record<string, string>>;
  readonly periods?: Readonly<Record<string, string>>;
}

interface Forms {
  readonly one: string;
  readonly many: string;
  readonly gender: Gender;
}

const GENDERS: Readonly<Record<string, Gender>> = {
  f: "feminine",
  m: "masculine",
  n: "neuter",
};
const UNITS_OF_TIME = /^(?:[nµm]?s|h|min)$/;

function readForms(written: string): Forms {
  const [one = "", many, gender = "m"] = written.split("|");
  return { one, many: many || one, gender: GENDERS[gender]! };
}

/** Reads a table whose keys are several symbols. */
function readSymbols<T>(table: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(table).flatMap(([symbols, value]) =>
    symbols.split(" ").map((symbol): [string, T] => [symbol.replaceAll("_", " "), value])
  );
}

/** Puts a noun in the place of `{}`, also within a word: Quadratmeter. */
function compound(pattern: string, noun: string): string {
  const isPart = /^\p{L}+\{\}/u.test(pattern);
  return pattern.replace("{}", isPart ? noun.toLowerCase() : noun);
}

/** Nouns from tables. */
export class TableNouns implements Nouns {
  readonly units: readonly string[];
  readonly currencies: readonly string[];
  readonly scales: readonly string[];
  readonly periods: readonly string[];
  readonly #tables: NounTables;
  readonly #units: ReadonlyMap<string, Forms>;
  readonly #currencies: ReadonlyMap<string, readonly string[]>;
  readonly #scales: ReadonlyMap<string, string>;
  readonly #locale: string;

  constructor(locale: string, tables: NounTables) {
    this.#locale = locale;
    this.#tables = tables;
    const units = readSymbols(tables.units).map(([symbol, noun]) =>
      [symbol, readForms(noun)] as const
    );
    const prefixed = Object.entries(tables.prefixed).flatMap((
      [symbol, [noun = "", letters = ""]],
    ) =>
      ["", ...letters].map((letter) =>
        [letter + symbol, this.#prefix(letter, readForms(noun))] as const
      )
    );
    this.#units = new Map([...prefixed, ...units]);
    this.#currencies = new Map(readSymbols(tables.currencies));
    this.#scales = new Map(readSymbols(tables.scales));
    this.units = [...this.#units.keys()];
    this.currencies = [...this.#currencies.keys()];
    this.scales = [...this.#scales.keys()];
    this.periods = Object.keys(tables.periods ?? {});
  }

  #prefix(letter: string, forms: Forms): Forms {
    if (letter === "") return forms;
    const word = this.#tables.prefixes[letter]!;
    const { one, many, gender } = forms;
    return { one: compound(`${word}{}`, one), many: compound(`${word}{}`, many), gender };
  }

  unit({ unit, power, per, perPower }: Fields): Noun {
    const rate = per === undefined ? "" : this.rate(per, perPower);
    return this.#toNoun(this.#raise(unit!, power), rate);
  }

  currency(sign: string): { readonly main: Noun; readonly cent: Noun | undefined } {
    const [main = "", cent] = this.#currencies.get(sign)!;
    return {
      main: this.#toNoun(readForms(main)),
      cent: cent === undefined ? undefined : this.#toNoun(readForms(cent)),
    };
  }

  scale(written: string): Noun {
    return this.#toNoun(readForms(this.#scales.get(written)!));
  }

  rate(per: string, power?: string): string {
    const { per: rates, periods = {} } = this.#tables;
    const own = power === undefined ? rates[per] : undefined;
    const name = this.#units.has(per) ? this.#raise(per, power).one : periods[per] ?? per;
    return ` ${own ?? rates["*"]!.replace("{}", name)}`;
  }

  /** The forms of a unit's area or volume. */
  #raise(unit: string, power: string | undefined): Forms {
    const { one, many, gender } = this.#units.get(unit)!;
    if (power === undefined) return { one, many, gender };
    const { powers, timePowers = powers } = this.#tables;
    const exponent = /[2\u00b2]/.test(power) ? "2" : "3";
    const patterns = readForms((UNITS_OF_TIME.test(unit) ? timePowers : powers)[exponent]!);
    return { one: compound(patterns.one, one), many: compound(patterns.many, many), gender };
  }

  #toNoun({ one, many, gender }: Forms, rate = ""): Noun {
    return {
      gender,
      inflect: (digits) => `{} ${this.#isOne(digits) ? one : many}${rate}`,
    };
  }

  #isOne(digits: string): boolean {
    const decimals = Math.min(20, digits.split(".")[1]?.length ?? 0);
    const rules = new Intl.PluralRules(this.#locale, { minimumFractionDigits: decimals });
    return rules.select(Number(digits)) === "one";
  }
}
