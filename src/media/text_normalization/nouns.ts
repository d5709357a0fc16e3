/**
 * The names of units, currencies and powers of ten, from tables or from `Intl`.
 *
 * @module
 */
import type { Gender } from "./numbers.ts";
import type { Fields } from "./token.ts";

/** A noun that is counted, in the forms that counts ask for, with `{}` for the number: "{} euros". */
export interface Noun {
  readonly gender?: Gender | undefined;
  readonly forms: { readonly [category in Intl.LDMLPluralRule]?: string };
}

/** Stands for a noun that is not known: the number alone is said. */
export const NAMELESS: Noun = { forms: { other: "{}" } };

type Table = Readonly<Record<string, string>>;

/**
 * The nouns of a language as tables. They are written `one|many|gender`: `heure|heures|f`. Without a gender they are
 * masculine, without a second form they do not change. Symbols of one noun have blanks between them, and underlines for
 * blanks in them.
 */
export interface NounTables {
  readonly units: Table;
  /** Words for prefixes by their letter; and units that take prefixes: the noun, and the letters. */
  readonly prefixes: Table;
  readonly prefixed: Readonly<Record<string, readonly string[]>>;
  /** The noun, perhaps with that of its hundredth. */
  readonly currencies: Readonly<Record<string, readonly string[]>>;
  /** Words and letters for powers of ten: `million`, `k`. */
  readonly scales: Table;
  /** Areas and volumes: `{}` is the unit. */
  readonly powers: Table;
  /** What stands behind a stroke: `{}` is the unit; for single units by their symbol. */
  readonly per: Table;
  /** What is not a unit, but may stand behind a stroke as one: `night`. */
  readonly periods?: Table;
}

/** What `Intl.NumberFormat` calls units and currencies, and their symbols with blanks between them. */
export interface IntlSymbols {
  readonly units: Table;
  readonly currencies: Table;
  /** The word in place of a sign that `Intl` leaves. */
  readonly percent?: string | undefined;
}

const GENDERS: Readonly<Record<string, Gender>> = { f: "feminine", m: "masculine", n: "neuter" };

/** The noun without the number. */
export const stripNumber = (form: string): string => form.replace("{} ", "");

function readNoun(written: string): Noun {
  const [one = "", many, gender = "m"] = written.split("|");
  return { gender: GENDERS[gender], forms: { one: `{} ${one}`, other: `{} ${many || one}` } };
}

/** Reads a table whose keys are several symbols. */
function readSymbols<T, U>(
  table: Readonly<Record<string, T>>,
  read: (value: T) => U,
): [string, U][] {
  return Object.entries(table).flatMap(([symbols, value]) =>
    symbols.split(" ").map((symbol): [string, U] => [symbol.replaceAll("_", " "), read(value)])
  );
}

/** Puts a noun in the place of `{}` of a pattern `one|many`, also within a word: Quadratmeter. */
function compound(pattern: string, { gender, forms }: Noun): Noun {
  const [one = "", many = one] = pattern.split("|");
  const fill = ([category, form]: readonly [string, string]) => {
    const part = category === "one" ? one : many;
    const isWithin = /^\p{L}+\{\}/u.test(part);
    const name = stripNumber(form);
    return [category, `{} ${part.replace("{}", isWithin ? name.toLowerCase() : name)}`];
  };
  return { gender, forms: Object.fromEntries(Object.entries(forms).map(fill)) };
}

/** The nouns of a language, by the symbols that texts have for them. */
export class Nouns {
  readonly units: ReadonlyMap<string, Noun>;
  readonly currencies: ReadonlyMap<string, readonly Noun[]>;
  readonly scales: ReadonlyMap<string, Noun>;
  readonly periods: Readonly<Record<string, string>>;
  readonly #locale: string;
  readonly #tables: NounTables;

  /** @param symbols where the tables have no units: those of `Intl`. */
  constructor(locale: string, tables: NounTables, symbols?: IntlSymbols) {
    this.#locale = locale;
    this.#tables = tables;
    this.periods = tables.periods ?? {};
    const prefixed = Object.entries(tables.prefixed).flatMap(([symbol, [noun, letters = ""]]) =>
      ["", ...letters].map((letter) => {
        const word = `${tables.prefixes[letter] ?? ""}{}`;
        return [letter + symbol, compound(letter && word || "{}", readNoun(noun!))] as const;
      })
    );
    const readNouns = (nouns: readonly string[]) => nouns.map(readNoun);
    this.units = new Map([
      ...prefixed,
      ...readSymbols(tables.units, readNoun),
      ...symbols === undefined ? [] : readIntlUnits(locale, symbols),
    ]);
    this.currencies = new Map([
      ...readSymbols(tables.currencies, readNouns),
      ...symbols === undefined ? [] : readIntlCurrencies(locale, symbols),
    ]);
    this.scales = new Map(readSymbols(tables.scales, readNoun));
  }

  /** The form for a count of ASCII digits. */
  inflect({ forms }: Noun, digits: string): string {
    const decimals = Math.min(20, digits.split(".")[1]?.length ?? 0);
    const rules = new Intl.PluralRules(this.#locale, { minimumFractionDigits: decimals });
    return forms[rules.select(Number(digits))] ?? forms.other!;
  }

  /** A unit with its power, and with the unit behind a stroke. */
  unit({ unit, power, per, perPower }: Fields): Noun {
    const noun = this.#raise(unit!, power);
    return per === undefined ? noun : compound(`{} ${this.rate(per, perPower)}`, noun);
  }

  /** Words for a unit behind a stroke: "per kilogram". */
  rate(per: string, power?: string): string {
    const rates = this.#tables.per;
    const own = rates[per + (power === undefined ? "" : readPower(power))];
    const name = this.units.has(per)
      ? stripNumber(this.#raise(per, power).forms.one!)
      : this.periods[per] ?? per;
    return own ?? rates["*"]!.replace("{}", name);
  }

  #raise(unit: string, power: string | undefined): Noun {
    const noun = this.units.get(unit)!;
    return power === undefined ? noun : compound(this.#tables.powers[readPower(power)]!, noun);
  }
}

const readPower = (written: string) => /[2\u00b2]/.test(written) ? "2" : "3";

/** Numbers among which each plural category of each language has one. */
const SAMPLES = [...Array(25).keys(), 100, 1_000_000, 0.5, 1.5];
/** What stands behind a stroke in rates of `Intl`. */
const RATES = ["hour", "minute", "second"];

/** The forms of a noun, as `Intl` puts it beside numbers. */
function readIntlNoun(
  locale: string,
  { percent, ...options }: Intl.NumberFormatOptions & { readonly percent?: string | undefined },
): Noun {
  const rules = new Intl.PluralRules(locale);
  const digits = { numberingSystem: "latn", minimumFractionDigits: 0, maximumFractionDigits: 1 };
  const format = new Intl.NumberFormat(locale, { ...digits, ...options });
  const read = (sample: number) =>
    format.formatToParts(sample)
      .map(({ type, value }) => /^(?:integer|group|decimal|fraction)$/.test(type) ? "{}" : value)
      .join("").replace(/(?:\{\})+/, "{}")
      .replace(/\s?[%\u066a]\u061c?/, (sign) => percent === undefined ? sign : ` ${percent}`);
  return { forms: Object.fromEntries(SAMPLES.map((each) => [rules.select(each), read(each)])) };
}

/** Units and their rates, by the common symbols and by those that the language itself has. */
function readIntlUnits(locale: string, { units, percent }: IntlSymbols): [string, Noun][] {
  const read = (unit: string, symbols: readonly string[]): [string, Noun][] => {
    const noun = readIntlNoun(locale, { style: "unit", unit, unitDisplay: "long", percent });
    const format = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short" });
    const own = format.formatToParts(5).find(({ type }) => type === "unit")?.value ?? "";
    const all = /^\p{L}+(?:\/\p{L}+)?$/u.test(own) ? [own, ...symbols] : symbols;
    return all.map((symbol) => [symbol, noun]);
  };
  return Object.entries(units).flatMap(([unit, written]) => {
    const symbols = written.split(" ");
    const rates = RATES.flatMap((per) =>
      read(`${unit}-per-${per}`, symbols.map((symbol) => `${symbol}/${units[per]}`))
    );
    return [...rates, ...read(unit, symbols)];
  });
}

function readIntlCurrencies(locale: string, { currencies }: IntlSymbols): [string, Noun[]][] {
  return Object.entries(currencies).flatMap(([currency, signs]) => {
    const noun = readIntlNoun(locale, { style: "currency", currency, currencyDisplay: "name" });
    const symbols = `${currency} ${signs}`.trim().split(" ");
    return symbols.map((symbol): [string, Noun[]] => [symbol, [noun, NAMELESS]]);
  });
}
