/**
 * Reads and says numbers as languages write and say them.
 *
 * @module
 */

/** The decimal sign. */
export type DecimalSign = "." | ",";

/**
 * Numbers with groups and decimals. With a decimal point, Indian groups are read too (1,00,000), and spaces separate
 * groups only if the last group is 000, since other digits after a space may be another number.
 */
const PATTERNS: Readonly<Record<DecimalSign, string>> = {
  ".": String
    .raw`(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)|\d{1,3}(?:[ _]\d{3})*[ _]000(?!\d)|\d+(?:_\d{3})*)` +
    String.raw`(?:\.\d+)?|(?<!\.)\.\d+`,
  ",": String
    .raw`(?:\d{1,3}(?:\.\d{3})+(?!\d|\.\d)|[1-9]\d{0,2}(?: \d{3})+(?!\d)|\d+)(?:,\d+)?|\d+\.\d+`,
};

/** Numbers with the other decimal sign, which only count as amounts of money: `€1.234,56`, `12,50 €`; `$1,250.50`. */
const FOREIGN: Readonly<Record<DecimalSign, string>> = {
  ".": String.raw`\d{1,3}(?:\.\d{3})+(?:,\d\d)?(?![\d.,]*\d)|\d+,\d\d(?![\d.,]*\d)`,
  ",": String.raw`\d{1,3}(?:,\d{3})+\.\d\d(?![\d.,]*\d)`,
};

/** Makes a pattern for numbers, without capturing groups. */
export function makeNumberPattern(sign: DecimalSign, { isMoney = false } = {}): string {
  return isMoney ? `(?:${FOREIGN[sign]}|${PATTERNS[sign]})` : `(?:${PATTERNS[sign]})`;
}

/**
 * Converts a written number to ASCII digits, perhaps with a decimal point.
 *
 * @param hasPointGroups whether `10.000` is ten thousand even if the language's decimal sign is a point, as with `€`.
 */
export function readNumber(written: string, sign: DecimalSign, hasPointGroups = false): string {
  const plain = written.replaceAll(/[ _]/g, "");
  const isGrouped = /^\d{1,3}(?:\.\d{3})+(?:,\d+)?$/.test(plain);
  if (isGrouped && (sign === "," || hasPointGroups || plain.length > 7)) {
    return plain.replaceAll(".", "").replace(",", ".");
  }
  if (/^\d{1,3}(?:,\d{3})+\.\d+$/.test(plain)) return plain.replaceAll(",", "");
  const isComma = sign === "," || /^\d+,\d\d$/.test(plain);
  const digits = isComma ? plain.replace(",", ".") : plain.replaceAll(",", "");
  return digits.startsWith(".") ? `0${digits}` : digits;
}

/** The functions of n2words for a language. */
export interface NumberModule {
  /** @param options some languages take a `gender`. */
  toCardinal(value: string, options?: object): string;
  toOrdinal(value: string): string;
}

/** A pattern that matches any of the texts, the longest first. */
export function matchAny(texts: Iterable<string>): string {
  const longestFirst = [...texts].sort((a, b) => b.length - a.length);
  const escaped = longestFirst.map((text) => text.replaceAll(/[.$+*?^|()[\]{}\\/]/g, "\\$&"));
  return escaped.join("|") || "(?!)";
}

export type Gender = "masculine" | "feminine" | "neuter";

/** Replacements, applied in order. */
type Replacements = readonly (readonly [pattern: RegExp, replacement: string])[];

/** Makes each replacement in turn. */
export function replaceEach(text: string, replacements: Replacements = []): string {
  return replacements.reduce((now, [pattern, by]) => now.replace(pattern, by), text);
}

/** A language's words for numbers, and its corrections of n2words' output. */
export interface NumberStyle {
  readonly decimalSign: DecimalSign;
  readonly minus: string;
  /** The word for the decimal sign; decimals are read digit by digit. */
  readonly point?: string | undefined;
  /** The word between the ends of a range; without it, dashes between numbers stay. */
  readonly to?: string | undefined;
  /** The word between the days of a range of dates. */
  readonly toDay?: string;
  /** Whether the first day of a month is an ordinal. */
  readonly saysFirst?: boolean;
  /** The word between the numbers of a score. */
  readonly versus?: string | undefined;
  /** The word between an amount's whole part and its cents. */
  readonly andCents: string;
  /** Whether the noun for cents is said. */
  readonly saysCents?: boolean;
  /** The word between a large number and a noun: "millions de livres". */
  readonly link?: string;
  /** Whether telephone numbers are said in pairs of digits. */
  readonly saysPairs?: boolean;
  readonly corrections?: Replacements | undefined;
  /** Changes to a number before a noun, by the noun's gender. */
  readonly agreement?: Partial<Record<Gender, Replacements>>;
  /** Changes to an ordinal before a noun, by the noun's gender. */
  readonly ordinalAgreement?: Partial<Record<Gender, Replacements>>;
  /** Changes where a number meets its noun: "un'ora". */
  readonly elisions?: Replacements;
}

/** Longer numbers are read digit by digit. */
const MAX_DIGITS = 18;

/** Says numbers in one language. */
export class NumberWords {
  readonly style: NumberStyle;
  readonly #module: NumberModule;

  constructor(module: NumberModule, style: NumberStyle) {
    this.#module = module;
    this.style = style;
  }

  /** Says a number as written in the text. */
  say(written: string): string {
    return this.cardinal(readNumber(written, this.style.decimalSign));
  }

  /**
   * Says a number, or ASCII digits with an optional point.
   *
   * @param gender of the noun after it; without one, the number stands alone.
   */
  cardinal(digits: string | number, gender?: Gender): string {
    const [whole = "0", decimals] = String(digits).split(".");
    const { point, corrections, agreement } = this.style;
    if (decimals !== undefined && point !== undefined) {
      return `${this.cardinal(whole)} ${point} ${this.digits(decimals)}`;
    }
    if (whole.length > MAX_DIGITS) return this.digits(whole);
    const options = gender === undefined || decimals !== undefined ? undefined : { gender };
    const said = replaceEach(this.#module.toCardinal(String(digits), options), corrections);
    return options === undefined ? said : replaceEach(said, agreement?.[options.gender]);
  }

  ordinal(digits: string | number, gender: Gender = "masculine"): string {
    const plain = String(digits);
    // The modules have no ordinal of zero.
    if (plain.length > MAX_DIGITS || /^0+$/.test(plain)) return this.cardinal(plain);
    const said = replaceEach(this.#module.toOrdinal(plain), this.style.corrections);
    return replaceEach(said, this.style.ordinalAgreement?.[gender]);
  }

  /** Says the minutes and seconds of a time of day; empty for full hours. */
  minutes(
    { minute = "00", second }: Readonly<Record<string, string | undefined>>,
    { and = " ", nought = "" } = {},
  ): string {
    const parts = second === undefined ? [minute] : [minute, second];
    const say = (part: string) =>
      and + (/^0[1-9]/.test(part) ? nought : "") + this.cardinal(Number(part));
    return parts.join("") === "00" ? "" : parts.map(say).join("");
  }

  /** Says the digits one by one; other characters are left out. */
  digits(text: string): string {
    return [...text.replaceAll(/\D/g, "")].map((digit) => this.cardinal(digit)).join(" ");
  }
}

const ROMAN: Readonly<Record<string, number>> = { I: 1, V: 5, X: 10, L: 50, C: 100 };

/** The value of a Roman numeral. */
export function parseRoman(numeral: string): number {
  const values = [...numeral].map((letter) => ROMAN[letter]!);
  return values.reduce((sum, each, i) => each < (values[i + 1] ?? 0) ? sum - each : sum + each, 0);
}
