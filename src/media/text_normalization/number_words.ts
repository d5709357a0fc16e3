/**
 * Numbers in words.
 *
 * @module
 */
import { replaceAll, type Replacements } from "./tables.ts";
import type { Gender } from "./token.ts";

/** Longer numbers are read digit by digit. */
const MAX_DIGITS = 18;

/** The functions of n2words for a language. */
export interface NumberModule {
  /** @param options some languages take a `gender`. */
  toCardinal(value: string, options?: object): string;
  toOrdinal(value: string, options?: object): string;
}

/** What a language changes in the words of n2words. */
export interface NumberStyle {
  readonly minus: string;
  /** The word for the decimal sign; decimals after it are read one by one. */
  readonly point?: string | undefined;
  readonly corrections?: Replacements | undefined;
  /** Changes of a number before a noun. */
  readonly agreement?: Partial<Record<Gender, Replacements>> | undefined;
  /** Changes of an ordinal for a gender. */
  readonly ordinalAgreement?: Partial<Record<Gender, Replacements>> | undefined;
}

/** Says numbers in one language. */
export class NumberWords {
  readonly #module: NumberModule;
  readonly #style: NumberStyle;

  constructor(module: NumberModule, style: NumberStyle) {
    this.#module = module;
    this.#style = style;
  }

  /**
   * A number of ASCII digits, perhaps with a point.
   *
   * @param gender of the noun after it; without one the number stands alone.
   */
  cardinal(digits: string, gender?: Gender): string {
    const [whole = "0", decimals] = digits.split(".");
    if (decimals !== undefined) {
      const point = this.#style.point;
      return point === undefined
        ? this.#correct(this.#module.toCardinal(`${whole || "0"}.${decimals}`))
        : `${this.cardinal(whole || "0")} ${point} ${this.digits(decimals)}`;
    }
    if (whole.length > MAX_DIGITS) return this.digits(whole);
    const isCounted = gender !== undefined;
    const said = this.#correct(
      this.#module.toCardinal(whole, isCounted ? { gender } : undefined),
    );
    return isCounted ? replaceAll(said, this.#style.agreement?.[gender]) : said;
  }

  negative(said: string): string {
    return `${this.#style.minus} ${said}`;
  }

  ordinal(digits: string, gender: Gender = "masculine"): string {
    if (digits.length > MAX_DIGITS) return this.digits(digits);
    // The modules have no ordinal of nought.
    if (/^0+$/.test(digits)) return this.cardinal("0");
    const said = this.#correct(this.#module.toOrdinal(digits));
    return replaceAll(said, this.#style.ordinalAgreement?.[gender]);
  }

  /** One digit after the other; other characters are left out. */
  digits(text: string): string {
    return [...text.replaceAll(/\D/g, "")].map((digit) => this.cardinal(digit)).join(" ");
  }

  #correct(said: string): string {
    return replaceAll(said, this.#style.corrections);
  }
}
