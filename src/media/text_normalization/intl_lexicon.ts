/**
 * The names of units and currencies, from `Intl`.
 *
 * @module
 */
import type { Lexicon } from "./lexicon.ts";
import type { NumberWords } from "./number_words.ts";
import type { Amount, Measure, Money } from "./token.ts";

/** Symbols by the identifier that `Intl.NumberFormat` takes. */
const UNITS: Readonly<Record<string, string>> = {
  percent: "% \u066a",
  celsius: "\u00b0C \u2103",
  fahrenheit: "\u00b0F \u2109",
  degree: "\u00b0",
  millimeter: "mm",
  centimeter: "cm",
  meter: "m",
  kilometer: "km",
  mile: "mi",
  foot: "ft",
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
  megabit: "Mbit",
  gigabit: "Gbit",
  microsecond: "\u00b5s \u03bcs",
  millisecond: "ms",
  second: "s",
  minute: "min",
  hour: "h",
};

/** Codes of currencies by their signs. */
const SIGNS: Readonly<Record<string, string>> = {
  "\u20ac": "EUR",
  $: "USD",
  US$: "USD",
  "\u00a3": "GBP",
  "\u00a5": "JPY",
  "\u20b9": "INR",
  "\u20bd": "RUB",
  "\u20ba": "TRY",
  "\u20b4": "UAH",
  "\u20a9": "KRW",
  "\u20ab": "VND",
  "z\u0142": "PLN",
  "K\u010d": "CZK",
  kr: "SEK",
};
const CODES = "EUR USD CAD AUD GBP CHF JPY CNY INR RUB UAH PLN CZK SEK NOK DKK HUF TRY BRL KRW VND";

/** A lexicon of `Intl`: what it has no name for, such as areas, is left to the signs. */
export class IntlLexicon implements Lexicon {
  readonly units: readonly string[];
  readonly currencies: readonly string[] = [...Object.keys(SIGNS), ...CODES.split(" ")];
  readonly hasPowers = false;
  readonly #locale: string;
  readonly #numbers: NumberWords;
  readonly #to: string;
  readonly #percent: string | undefined;
  readonly #ids = new Map<string, string>();
  readonly #formats = new Map<string, Intl.NumberFormat>();

  /**
   * @param options.to the word between the ends of a range.
   * @param options.percent in place of a sign that `Intl` leaves.
   */
  constructor(
    locale: string,
    { numbers, to, percent }: {
      readonly numbers: NumberWords;
      readonly to: string;
      readonly percent?: string | undefined;
    },
  ) {
    this.#locale = locale;
    this.#numbers = numbers;
    this.#to = to;
    this.#percent = percent;
    for (const [id, symbols] of Object.entries(UNITS)) {
      for (const symbol of symbols.split(" ")) this.#ids.set(symbol, id);
      // The symbol that the language itself has.
      const format = new Intl.NumberFormat(locale, {
        style: "unit",
        unit: id,
        unitDisplay: "short",
      });
      const own = format.formatToParts(5).find(({ type }) => type === "unit")?.value ?? "";
      if (/^\p{L}+$/u.test(own) && !this.#ids.has(own)) this.#ids.set(own, id);
    }
    this.units = [...this.#ids.keys()];
  }

  measure({ amount, last, unit, per }: Measure): string {
    const id = this.#ids.get(unit)!;
    const rate = per === undefined ? id : `${id}-per-${this.#ids.get(per)}`;
    return this.#count(amount, {
      last,
      options: { style: "unit", unit: rate, unitDisplay: "long" },
    });
  }

  money({ amount, last, currency, per }: Money): string {
    const code = SIGNS[currency] ?? currency;
    const options = { style: "currency", currency: code, currencyDisplay: "name" } as const;
    const [whole, cents = ""] = amount.digits.split(".");
    const isParted = cents.length === 2 && last === undefined;
    const main = this.#count(isParted ? { ...amount, digits: whole! } : amount, { last, options });
    const said = isParted && cents !== "00"
      ? `${main} ${this.#numbers.cardinal(String(Number(cents)))}`
      : main;
    return per === undefined ? said : `${said} / ${per}`;
  }

  noun(unit: string, isOne: boolean): string {
    const id = this.#ids.get(unit)!;
    const format = this.#format({ style: "unit", unit: id, unitDisplay: "long" });
    return format.formatToParts(isOne ? 1 : 5).find(({ type }) => type === "unit")?.value ?? unit;
  }

  /** A formatted number with its words in the place of its digits. */
  #count(
    { digits, isNegative }: Amount,
    { last, options }: {
      readonly last: Amount | undefined;
      readonly options: Intl.NumberFormatOptions;
    },
  ): string {
    const say = (number: string) => this.#numbers.cardinal(number);
    const start = isNegative ? this.#numbers.negative(say(digits)) : say(digits);
    const words = last === undefined ? start : `${start} ${this.#to} ${say(last.digits)}`;
    const counted = last?.digits ?? digits;
    const decimals = Math.min(20, counted.split(".")[1]?.length ?? 0);
    const parts = this.#format({
      ...options,
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    }).formatToParts(Number(counted));
    let isSaid = false;
    const said = parts.map(({ type, value }) => {
      if (!/^(?:integer|group|decimal|fraction)$/.test(type)) return value;
      const number = isSaid ? "" : words;
      isSaid = true;
      return number;
    });
    const whole = said.join("");
    const percent = this.#percent;
    return percent === undefined
      ? whole
      : whole.replace(/\s?[%\u066a]\u061c?/, () => ` ${percent}`);
  }

  #format(options: Intl.NumberFormatOptions): Intl.NumberFormat {
    const full = { numberingSystem: "latn", ...options };
    return this.#formats.getOrInsertComputed(
      JSON.stringify(full),
      () => new Intl.NumberFormat(this.#locale, full),
    );
  }
}
