/**
 * JSON numbers within bounds, as expressions.
 *
 * Numbers have at most 15 digits before the decimal point, so that different integers are different doubles.
 *
 * @module
 */
import { EMPTY_TEXT, type Expressions, NOTHING } from "./expressions.ts";

/** Constraints on a number. */
export interface NumberBounds {
  readonly isInteger: boolean;
  readonly min?: { readonly value: number; readonly isExclusive: boolean } | undefined;
  readonly max?: { readonly value: number; readonly isExclusive: boolean } | undefined;
  /** Divisors, all of which are enforceable: see {@linkcode isEnforceableDivisor}. */
  readonly multipleOf: readonly number[];
}

/** Maximum number of digits of a divisor after the decimal point. */
export const MAX_DIVISOR_DIGITS = 12;
/** Largest divisor, read without its decimal point. Each remainder is a state of the grammar. */
export const MAX_DIVISOR = 10_000;

/** Whether multiples of a number can be enforced. */
export function isEnforceableDivisor(divisor: number): boolean {
  const { whole, fraction } = toBound(divisor);
  return divisor > 0 && fraction.length <= MAX_DIVISOR_DIGITS &&
    Number(whole + fraction) <= MAX_DIVISOR;
}

const MAX_DIGITS = 15;
const MAX_FRACTION_DIGITS = 15;

/** Builds an expression that matches the numbers within the bounds. */
export function buildNumber(expressions: Expressions, bounds: NumberBounds): number {
  return new NumberBuilder(expressions).build(bounds);
}

interface Bound {
  /** Digits before the decimal point, without leading zeros except for `0` itself. */
  readonly whole: string;
  /** Digits after the decimal point, without trailing zeros. */
  readonly fraction: string;
  readonly isExclusive: boolean;
}

class NumberBuilder {
  readonly #expressions: Expressions;

  constructor(expressions: Expressions) {
    this.#expressions = expressions;
  }

  build({ isInteger, min, max, multipleOf }: NumberBounds): number {
    const isBounded = min !== undefined || max !== undefined;
    const low = min?.value ?? -Infinity;
    const high = max?.value ?? Infinity;
    const parts: number[] = [];
    if (high >= 0) {
      const from = low > 0 || (low === 0 && min?.isExclusive)
        ? toBound(low, min?.isExclusive)
        : undefined;
      const to = high < Infinity ? toBound(high, max?.isExclusive) : undefined;
      parts.push(this.#positive(isInteger, from, to));
    }
    if (low < 0) {
      const from = high < 0 || (high === 0 && max?.isExclusive)
        ? toBound(-high, max?.isExclusive)
        : undefined;
      const to = low > -Infinity ? toBound(-low, min?.isExclusive) : undefined;
      parts.push(this.#concat(this.#text("-"), this.#positive(isInteger, from, to)));
    }
    const digits = this.#expressions.or(parts);
    if (multipleOf.length > 0) {
      const sign = this.#expressions.repeat(this.#text("-"), 0, 1);
      const multiples = multipleOf.map((divisor) => this.#concat(sign, this.#multiple(divisor)));
      return this.#expressions.and([digits, ...multiples]);
    }
    if (isInteger || isBounded) return digits;
    const exponent = this.#concat(
      this.#expressions.or([this.#text("e"), this.#text("E")]),
      this.#expressions.repeat(this.#expressions.or([this.#text("+"), this.#text("-")]), 0, 1),
      this.#digits(1, 2),
    );
    return this.#concat(digits, this.#expressions.repeat(exponent, 0, 1));
  }

  /**
   * Matches multiples without a sign, with at most as many digits after the point as the divisor has. The number and
   * the divisor are read as whole numbers, without their points: if the number has `n` digits after the point and the
   * divisor has `m`, the number must be a multiple of divisor / gcd(divisor, 10^(m - n)).
   */
  #multiple(divisor: number): number {
    const { whole, fraction } = toBound(divisor);
    const digits = Number(whole + fraction);
    if (fraction === "") return this.#expressions.multipleOf(digits);
    return this.#expressions.or(Array.from({ length: fraction.length + 1 }, (_, n) => {
      const scale = 10 ** (fraction.length - n);
      const multiple = this.#expressions.multipleOf(digits / greatestDivisor(digits, scale));
      const tail = n === 0 ? [] : [this.#text("."), this.#digits(n, n)];
      const number = this.#concat(this.#digits(1, Infinity), ...tail);
      return this.#expressions.and([number, multiple]);
    }));
  }

  /** Matches numbers without a sign. */
  #positive(isInteger: boolean, from: Bound | undefined, to: Bound | undefined): number {
    const wholeDigits = Math.max(from?.whole.length ?? 1, to?.whole.length ?? 1);
    const fractionDigits = Math.max(
      1,
      MAX_FRACTION_DIGITS - (from || to ? wholeDigits : 0),
      from?.fraction.length ?? 0,
      to?.fraction.length ?? 0,
    );
    const whole = this.#expressions.or([
      this.#text("0"),
      this.#concat(this.#range("1", "9"), this.#digits(0, MAX_DIGITS - 1)),
    ]);
    const fraction = this.#concat(this.#text("."), this.#digits(1, fractionDigits));
    const syntax = isInteger
      ? whole
      : this.#concat(whole, this.#expressions.repeat(fraction, 0, 1));
    return this.#expressions.and([
      syntax,
      ...(from ? [this.#atLeast(from)] : []),
      ...(to ? [this.#atMost(to)] : []),
    ]);
  }

  #atLeast({ whole, fraction, isExclusive }: Bound): number {
    const anyFraction = this.#fraction(this.#digits(1, Infinity));
    const tail = fraction === ""
      ? (isExclusive ? this.#concat(this.#text("."), this.#notZero()) : anyFraction)
      : this.#concat(this.#text("."), this.#fractionAtLeast(fraction, isExclusive));
    return this.#expressions.or([
      this.#concat(this.#wholeBeyond(whole), anyFraction),
      this.#concat(this.#text(whole), tail),
    ]);
  }

  #atMost({ whole, fraction, isExclusive }: Bound): number {
    const zeros = this.#expressions.repeat(this.#text("0"), 1, Infinity);
    const tail = fraction === ""
      ? (isExclusive ? NOTHING : this.#fraction(zeros))
      : this.#fraction(this.#fractionAtMost(fraction, isExclusive));
    return this.#expressions.or([
      this.#concat(this.#wholeBelow(whole), this.#fraction(this.#digits(1, Infinity))),
      this.#concat(this.#text(whole), tail),
    ]);
  }

  #fraction(digits: number): number {
    return this.#expressions.repeat(this.#concat(this.#text("."), digits), 0, 1);
  }

  #notZero(): number {
    return this.#concat(
      this.#digits(0, Infinity),
      this.#range("1", "9"),
      this.#digits(0, Infinity),
    );
  }

  #fractionAtLeast(bound: string, isExclusive: boolean): number {
    if (bound === "") return isExclusive ? this.#notZero() : this.#digits(0, Infinity);
    return this.#expressions.or([
      this.#concat(this.#above(bound[0]!), this.#digits(0, Infinity)),
      this.#concat(this.#text(bound[0]!), this.#fractionAtLeast(bound.slice(1), isExclusive)),
    ]);
  }

  #fractionAtMost(bound: string, isExclusive: boolean): number {
    const rest = bound.slice(1);
    const equal = rest === ""
      ? (isExclusive ? NOTHING : this.#expressions.repeat(this.#text("0"), 0, Infinity))
      : this.#expressions.repeat(this.#fractionAtMost(rest, isExclusive), 0, 1);
    return this.#expressions.or([
      this.#concat(this.#below(bound[0]!), this.#digits(0, Infinity)),
      this.#concat(this.#text(bound[0]!), equal),
    ]);
  }

  /** Matches whole numbers of any length that are larger than `bound`. */
  #wholeBeyond(bound: string): number {
    const longer = this.#concat(this.#range("1", "9"), this.#digits(bound.length, Infinity));
    const alternatives = Array.from(bound, (digit, i) =>
      this.#concat(
        this.#text(bound.slice(0, i)),
        this.#above(digit),
        this.#digits(bound.length - i - 1, bound.length - i - 1),
      ));
    return this.#expressions.or([longer, ...alternatives]);
  }

  /** Matches whole numbers that are smaller than `bound`. */
  #wholeBelow(bound: string): number {
    if (bound === "0") return NOTHING;
    const shorter = [
      this.#text("0"),
      ...(bound.length > 1
        ? [this.#concat(this.#range("1", "9"), this.#digits(0, bound.length - 2))]
        : []),
    ];
    const alternatives = Array.from(bound, (digit, i) =>
      this.#concat(
        this.#text(bound.slice(0, i)),
        this.#below(digit),
        this.#digits(bound.length - i - 1, bound.length - i - 1),
      ));
    return this.#expressions.or([...shorter, ...alternatives]);
  }

  #above(digit: string): number {
    return digit === "9" ? NOTHING : this.#range(String(Number(digit) + 1), "9");
  }

  #below(digit: string): number {
    return digit === "0" ? NOTHING : this.#range("0", String(Number(digit) - 1));
  }

  #digits(min: number, max: number): number {
    return max === 0 ? EMPTY_TEXT : this.#expressions.repeat(this.#range("0", "9"), min, max);
  }

  #range(first: string, last: string): number {
    return this.#expressions.range(first.charCodeAt(0), last.charCodeAt(0));
  }

  #text(text: string): number {
    return this.#expressions.text(text);
  }

  #concat(...parts: number[]): number {
    return this.#expressions.concat(parts);
  }
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

/** Splits the absolute value of a number into its decimal digits, as in its shortest representation. */
function toBound(value: number, isExclusive = false): Bound {
  const [mantissa, exponent = "0"] = String(Math.abs(value)).split("e");
  const [before, behind = ""] = mantissa!.split(".");
  const shift = Number(exponent);
  const digits = before! + behind;
  const point = before!.length + shift;
  const padded = digits.padStart(digits.length + Math.max(0, 1 - point), "0")
    .padEnd(Math.max(point, 0), "0");
  const at = Math.max(point, 1);
  return {
    whole: padded.slice(0, at).replace(/^0+(?=\d)/, ""),
    fraction: padded.slice(at).replace(/0+$/, ""),
    isExclusive,
  };
}
