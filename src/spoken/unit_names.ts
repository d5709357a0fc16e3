/**
 * Units and currencies: their symbols in texts, and their names, which `Intl` has for every language.
 *
 * @module
 */
import type { Language, Power } from "./language.ts";

/** International symbols by the identifier that `Intl.NumberFormat` takes. A language's own come from there too. */
const SYMBOLS: Readonly<Record<string, string>> = {
  percent: "% \u066a",
  celsius: "\u00b0C \u2103",
  fahrenheit: "\u00b0F \u2109",
  degree: "\u00b0",
  millimeter: "mm",
  centimeter: "cm",
  meter: "m",
  kilometer: "km",
  mile: "mi",
  yard: "yd",
  foot: "ft",
  milligram: "mg \u043c\u0433",
  gram: "g",
  kilogram: "kg",
  pound: "lb lbs",
  ounce: "oz",
  milliliter: "ml mL",
  liter: "l L",
  hectare: "ha",
  kilobyte: "kB KB",
  megabyte: "MB",
  gigabyte: "GB",
  terabyte: "TB",
  petabyte: "PB",
  megabit: "Mbit",
  gigabit: "Gbit",
  nanosecond: "ns",
  microsecond: "\u00b5s \u03bcs",
  millisecond: "ms",
  second: "s",
  minute: "min",
  hour: "h",
};

/** A unit that Intl lacks: what it is a part of, and two units whose names have the same prefix between them. */
const MILLIGRAM = { name: "milligram", base: "gram", prefixed: "milliliter", plain: "liter" };

/** Units that are read beside a number where their names are written in full, beside those above. */
const PERIODS = ["day", "week", "month", "year"];

/** Signs of currencies. Where a country's name is not said: another currency of this name, by which it is found. */
const SIGNS: Readonly<Record<string, { readonly code: string; readonly alike?: string }>> = {
  "\u20ac": { code: "EUR" },
  $: { code: "USD", alike: "CAD" },
  US$: { code: "USD", alike: "USD" },
  R$: { code: "BRL" },
  "\u00a3": { code: "GBP", alike: "EGP" },
  "\u00a5": { code: "JPY" },
  "\u20b9": { code: "INR", alike: "PKR" },
  "\u20bd": { code: "RUB", alike: "BYN" },
  "\u0440\u0443\u0431.": { code: "RUB", alike: "BYN" },
  "\u20ba": { code: "TRY" },
  "\u20b4": { code: "UAH" },
  "\u0433\u0440\u043d": { code: "UAH" },
  "\u20a9": { code: "KRW" },
  "\u20ab": { code: "VND" },
  "z\u0142": { code: "PLN" },
  kr: { code: "SEK", alike: "NOK" },
};
const CODES = "EUR USD CAD AUD GBP CHF JPY CNY INR RUB UAH PLN CZK SEK NOK DKK TRY BRL KRW VND"
  .split(" ");

/** A number, and the words that it is said in. */
interface SaidNumber {
  /** Digits, perhaps with a point. */
  readonly digits: string;
  readonly words: string;
}

/** Of which a language has different plural forms. */
const NUMBERS: readonly SaidNumber[] = ["1", "2", "5"].map((digits) => ({ digits, words: "" }));

/** What an amount is for, and the area or volume that a unit is of. */
interface UnitForm {
  readonly power?: "square" | "cubic" | undefined;
  /** Identifier of a unit. */
  readonly per?: string | undefined;
}

/** Names of a language's units and currencies. */
export class UnitNames {
  /** Identifiers of units by symbol. */
  readonly units: ReadonlyMap<string, string>;
  /** Signs and codes of currencies. */
  readonly currencies: readonly string[] = [...Object.keys(SIGNS), ...CODES];
  /** Identifiers of units, and codes of currencies, by their names. */
  readonly nouns: ReadonlyMap<string, string>;
  readonly #language: Language;
  readonly #formats = new Map<string, Intl.NumberFormat>();

  constructor(language: Language) {
    this.#language = language;
    this.units = this.#readSymbols();
    this.nouns = this.#readNouns();
  }

  codeOf(currency: string): string {
    return SIGNS[currency]?.code ?? currency;
  }

  /** A number of a unit; `undefined` where the language's word for an area, a volume or a rate is not known. */
  unit(number: SaidNumber, unit: string, { power, per }: UnitForm = {}): string | undefined {
    const { rates } = this.#language;
    if (per !== undefined && rates !== undefined) {
      return this.#rate(this.unit(number, unit, { power }), per);
    }
    const base = unit === MILLIGRAM.name ? MILLIGRAM.base : unit;
    const id = per === undefined ? base : `${base}-per-${per}`;
    const said = this.#around(number, { style: "unit", unit: id });
    const plain = this.#nameOf(number, { style: "unit", unit: base });
    const name = this.#nameOf(number, { style: "unit", unit });
    const powered = power === undefined ? name : this.#raise(name, number, this.#language[power]);
    return powered === undefined ? undefined : this.#saySigns(said.replace(plain, () => powered));
  }

  /** A unit's name for an area or a volume. */
  #raise(name: string, number: SaidNumber, powers: Power | undefined): string | undefined {
    if (powers === undefined) return undefined;
    const rules = new Intl.PluralRules(this.#language.locale, decimalsOf(number));
    const pattern = powers[rules.select(Number(number.digits))] ?? powers.other;
    // Not a word of its own: Quadratmeter.
    const isPart = /[^\s]\{\}/.test(pattern);
    return pattern.replace("{}", isPart ? name.toLowerCase() : name);
  }

  #rate(said: string | undefined, per: string): string | undefined {
    return said && this.#language.rates?.[per]?.replace("{}", () => said);
  }

  /** A number of a currency; `undefined` where a rate's name is not known. */
  currency(number: SaidNumber, currency: string, per?: string): string | undefined {
    const { code, alike } = SIGNS[currency] ?? { code: currency };
    const name = this.#nameOf(number, { style: "currency", currency: code });
    const said = this.#currencyNoun(name, { number, isSign: currency !== code, alike });
    const whole = this.#around(number, { style: "currency", currency: code }).replace(
      name,
      () => said,
    );
    if (per === undefined) return this.#saySigns(whole);
    if (this.#language.rates !== undefined) return this.#rate(whole, per);
    const rate = this.#around(number, { style: "unit", unit: `meter-per-${per}` });
    const meter = this.#around(number, { style: "unit", unit: "meter" });
    return this.#saySigns(rate.replace(meter, () => whole));
  }

  /** The name without its country. */
  #currencyNoun(
    name: string,
    { number, isSign, alike }: {
      readonly number: SaidNumber;
      readonly isSign: boolean;
      readonly alike: string | undefined;
    },
  ): string {
    const { currencyNoun } = this.#language;
    if (!isSign || currencyNoun === undefined) return name;
    const words = name.split(/[\s-]+/);
    if (alike === undefined) return words.at(currencyNoun === "first" ? 0 : -1)!;
    const others = this.#nameOf(number, { style: "currency", currency: alike }).split(/[\s-]+/);
    return words.filter((word) => others.includes(word)).join(" ") || name;
  }

  /** The parts of a formatted number that are no digits, in their order, with its words in the place of its digits. */
  #around(number: SaidNumber, options: Intl.NumberFormatOptions): string {
    let isSaid = false;
    const said = this.#parts(number, options).map(({ type, value }) => {
      if (!/^(?:integer|group|decimal|fraction)$/.test(type)) return value;
      const words = isSaid ? "" : number.words;
      isSaid = true;
      return words;
    });
    return said.join("").replaceAll(/\s+/g, " ").trim();
  }

  #nameOf(number: SaidNumber, options: Intl.NumberFormatOptions): string {
    if (options.unit === MILLIGRAM.name) {
      const nameOf = (unit: string) => this.#nameOf(number, { ...options, unit });
      const prefix = nameOf(MILLIGRAM.prefixed).slice(0, -nameOf(MILLIGRAM.plain).length);
      return prefix + nameOf(MILLIGRAM.base).toLowerCase();
    }
    return this.#parts(number, options)
      .filter(({ type }) => type === "unit" || type === "currency")
      .map(({ value }) => value).join(" ").trim();
  }

  #parts(number: SaidNumber, options: Intl.NumberFormatOptions): Intl.NumberFormatPart[] {
    const full: Intl.NumberFormatOptions = {
      unitDisplay: "long",
      currencyDisplay: "name",
      numberingSystem: "latn",
      ...decimalsOf(number),
      ...options,
    };
    const format = this.#formats.getOrInsertComputed(
      JSON.stringify(full),
      () => new Intl.NumberFormat(this.#language.locale, full),
    );
    return format.formatToParts(Number(number.digits));
  }

  #saySigns(said: string): string {
    return Object.entries(this.#language.signs ?? {})
      .reduce((now, [sign, word]) => now.replaceAll(sign, word), said).replaceAll("  ", " ");
  }

  /** The name of a great number of a currency, which follows the word for millions or the like. */
  currencyAfterWord(currency: string): string {
    const number = { digits: "1000000", words: "" };
    return this.currency(number, currency)!;
  }

  /** International symbols, and those of the language. */
  #readSymbols(): ReadonlyMap<string, string> {
    const units = new Map<string, string>();
    for (const [unit, symbols] of Object.entries(SYMBOLS)) {
      for (const symbol of symbols.split(" ")) units.set(symbol, unit);
    }
    for (const unit of Object.keys(SYMBOLS)) {
      if (unit === MILLIGRAM.name) continue;
      for (const unitDisplay of ["short", "narrow"] as const) {
        for (const number of NUMBERS) {
          const symbol = this.#nameOf(number, { style: "unit", unit, unitDisplay });
          const isRange = symbol === this.#language.to?.trim();
          if (/\p{L}/u.test(symbol) && !isRange && !units.has(symbol)) units.set(symbol, unit);
        }
      }
    }
    return units;
  }

  #readNouns(): ReadonlyMap<string, string> {
    const nouns = new Map<string, string>();
    const add = (noun: string, id: string) => nouns.set(noun, id).set(noun.toLowerCase(), id);
    for (const number of NUMBERS) {
      for (const unit of [...Object.keys(SYMBOLS), ...PERIODS]) {
        add(this.#nameOf(number, { style: "unit", unit }), unit);
      }
      for (const [sign, { code, alike }] of Object.entries(SIGNS)) {
        const name = this.#nameOf(number, { style: "currency", currency: code });
        add(this.#currencyNoun(name, { number, isSign: sign !== code, alike }), code);
      }
    }
    nouns.delete("");
    return nouns;
  }
}

function decimalsOf({ digits }: SaidNumber) {
  const decimals = Math.min(20, digits.split(".")[1]?.length ?? 0);
  return { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
}
