/**
 * The names of units and currencies, from `Intl`.
 *
 * @module
 */
import { NAMELESS, type Noun, type Nouns } from "./nouns.ts";
import type { Fields } from "./token.ts";

/** Symbols by what `Intl.NumberFormat` calls them; several have blanks between them. */
interface IntlSymbols {
  readonly units: Readonly<Record<string, string>>;
  readonly currencies: Readonly<Record<string, string>>;
}

/** Nouns of `Intl`: what it has no name for, such as areas, is left to the signs. */
export class IntlNouns implements Nouns {
  readonly units: readonly string[];
  readonly currencies: readonly string[];
  readonly scales = [];
  readonly periods = [];
  readonly #locale: string;
  readonly #percent: string | undefined;
  readonly #units = new Map<string, string>();
  readonly #currencies = new Map<string, string>();

  /** @param options.percent in place of a sign that `Intl` leaves. */
  constructor(
    locale: string,
    { symbols, percent }: { readonly symbols: IntlSymbols; readonly percent?: string | undefined },
  ) {
    this.#locale = locale;
    this.#percent = percent;
    for (const [unit, written] of Object.entries(symbols.units)) {
      for (const symbol of written.split(" ")) this.#units.set(symbol, unit);
      // The symbol that the language itself has.
      const format = this.#format({ style: "unit", unit, unitDisplay: "short" });
      const own = format.formatToParts(5).find(({ type }) => type === "unit")?.value ?? "";
      if (/^\p{L}+$/u.test(own) && !this.#units.has(own)) this.#units.set(own, unit);
    }
    for (const [code, signs] of Object.entries(symbols.currencies)) {
      for (const sign of `${code} ${signs}`.trim().split(" ")) this.#currencies.set(sign, code);
    }
    this.units = [...this.#units.keys()];
    this.currencies = [...this.#currencies.keys()];
  }

  unit({ unit, per }: Fields): Noun {
    const id = this.#units.get(unit!)!;
    const rate = per === undefined ? id : `${id}-per-${this.#units.get(per)}`;
    return this.#toNoun({ style: "unit", unit: rate, unitDisplay: "long" });
  }

  currency(sign: string): { readonly main: Noun; readonly cent: Noun } {
    const currency = this.#currencies.get(sign)!;
    const main = this.#toNoun({ style: "currency", currency, currencyDisplay: "name" });
    return { main, cent: NAMELESS };
  }

  scale(): Noun {
    return NAMELESS;
  }

  rate(per: string): string {
    return ` / ${per}`;
  }

  #toNoun(options: Intl.NumberFormatOptions): Noun {
    return {
      inflect: (digits) => {
        const decimals = Math.min(20, digits.split(".")[1]?.length ?? 0);
        const parts = this.#format({
          ...options,
          minimumFractionDigits: decimals,
          maximumFractionDigits: decimals,
        }).formatToParts(Number(digits));
        const pattern = parts
          .map(({ type, value }) =>
            /^(?:integer|group|decimal|fraction)$/.test(type) ? "{}" : value
          )
          .join("").replace(/\{\}(?:\{\})+/, "{}");
        return this.#percent === undefined
          ? pattern
          : pattern.replace(/\s?[%\u066a]\u061c?/, ` ${this.#percent}`);
      },
    };
  }

  #format(options: Intl.NumberFormatOptions): Intl.NumberFormat {
    return new Intl.NumberFormat(this.#locale, { numberingSystem: "latn", ...options });
  }
}
