/**
 * Python's ints and floats: formatting and parsing.
 *
 * @module
 */
import { Float, getTypeName, raise, Undefined, type Value } from "./values.ts";
import { charge } from "../meter.ts";

/** An int: a number if that is exact, else a bigint. */
export type Int = number | bigint;

/** Python does not convert longer ints to text. */
const MAX_DIGITS = 4300;
/** Larger ints are refused. */
const MAX_BITS = 1 << 16;

/** Converts a bigint to an int. */
export function toInt(value: bigint): Int {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  const bits = value.toString(16).length * 4;
  charge(bits / 64);
  if (bits > MAX_BITS) raise("MemoryError", `it computes an integer of more than ${MAX_BITS} bits`);
  return value;
}

/** Converts a number without a fraction to an int. */
export function numberToInt(value: number): Int {
  if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
  if (Number.isNaN(value)) raise("ValueError", "cannot convert float NaN to integer");
  if (!Number.isFinite(value)) raise("OverflowError", "cannot convert float infinity to integer");
  return toInt(BigInt(value));
}

/** The value of an int or a bool; `undefined` for other types. */
export function asInt(value: Value): Int | undefined {
  if (typeof value === "number" || typeof value === "bigint") return value;
  return typeof value === "boolean" ? Number(value) : undefined;
}

/** The number of a float, int or bool; `undefined` for other types. */
export function asNumber(value: Value): number | undefined {
  if (value instanceof Float) return value.value;
  const int = asInt(value);
  return int === undefined ? undefined : Number(int);
}

/**
 * Converts an int or a bool to a number. A bigint is rounded.
 *
 * @throws {TemplateError} for other types.
 */
export function requireIndex(value: Value): number {
  const int = asInt(value);
  if (int !== undefined) return Number(int);
  if (value instanceof Undefined) value.fail();
  return raise("TypeError", `'${getTypeName(value)}' object cannot be interpreted as an integer`);
}

export function formatInt(value: Int): string {
  const text = value.toString();
  if (text.length > MAX_DIGITS) {
    raise("ValueError", `Exceeds the limit (${MAX_DIGITS} digits) for integer string conversion`);
  }
  return text;
}

/** Python's `repr(float)`: the shortest digits that read back as the same number. */
export function formatFloat(value: number): string {
  if (!Number.isFinite(value)) return formatInfinite(value);
  if (Object.is(value, -0)) return "-0.0";
  const [, sign, first, rest = "", exponentText] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(
    value.toExponential(),
  )!;
  const exponent = Number(exponentText);
  const digits = first + rest;
  if (exponent < -4 || exponent >= 16) {
    return `${sign}${first}${rest && `.${rest}`}e${formatExponent(exponent)}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

export function formatInfinite(value: number): string {
  return Number.isNaN(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

/** Formats an exponent with its sign and at least two digits. */
export function formatExponent(exponent: number): string {
  return (exponent < 0 ? "-" : "+") + String(Math.abs(exponent)).padStart(2, "0");
}

/** Converts digits of other scripts to ASCII. */
function toAsciiDigits(text: string): string {
  return text.replaceAll(/(?!\d)\p{Nd}/gu, (digit) => {
    charge(1);
    const code = digit.codePointAt(0)!;
    if (code >= MATH_DIGITS && code < MATH_DIGITS + 50) return String((code - MATH_DIGITS) % 10);
    let value = 0;
    while (/\p{Nd}/u.test(String.fromCodePoint(code - value - 1))) value++;
    return String(value);
  });
}

/** Python's `float(text)`; `undefined` when it is not a number. */
export function parseFloat(text: string): number | undefined {
  const trimmed = toAsciiDigits(text.trim());
  const named = /^([+-]?)(inf(?:inity)?|nan)$/i.exec(trimmed);
  if (named !== null) {
    const size = named[2]!.toLowerCase() === "nan" ? NaN : Infinity;
    return named[1] === "-" ? -size : size;
  }
  const isNumber = /^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)(e[+-]?\d+(_\d+)*)?$/i;
  return isNumber.test(trimmed) ? Number(trimmed.replaceAll("_", "")) : undefined;
}

/** The first of five consecutive alphabets of mathematical digits. */
const MATH_DIGITS = 0x1d7ce;

const PREFIXES = new Map([[2, "0b"], [8, "0o"], [16, "0x"]]);

/** Python's `int(text, base)`; `undefined` when it is not a number. */
export function parseInteger(text: string, base = 10): Int | undefined {
  const [, sign, body] = /^([+-]?)(\w+)$/.exec(
    toAsciiDigits(text.trim().toLowerCase()),
  ) ?? [];
  if (body === undefined) return undefined;
  const prefix = body.slice(0, 2);
  const [own] = [...PREFIXES].find(([, each]) => each === prefix) ?? [];
  const isPrefixed = own !== undefined && (base === own || base === 0);
  const radix = base === 0 ? own ?? 10 : base;
  // An underscore may follow the prefix.
  const digits = isPrefixed ? body.slice(2).replace(/^_/, "") : body;
  if (!/^[\da-z]+(_[\da-z]+)*$/.test(digits)) return undefined;
  const plain = digits.replaceAll("_", "");
  if (base === 0 && own === undefined && /^0+[1-9]/.test(plain)) return undefined;
  if (radix === 10 && plain.length > MAX_DIGITS) return undefined;
  const value = parseDigits(plain, radix);
  return value === undefined ? undefined : toInt(sign === "-" ? -value : value);
}

function parseDigits(digits: string, radix: number): bigint | undefined {
  if (radix !== 10) charge(digits.length * digits.length / 64);
  const values = Array.from(digits, (digit) => Number.parseInt(digit, 36));
  if (values.some((digit) => !(digit < radix))) return undefined;
  if (radix === 10) return BigInt(digits);
  return values.reduce((value, digit) => value * BigInt(radix) + BigInt(digit), 0n);
}

/** Rounds to `digits` decimal places, by the number's exact value and with ties to even. */
export function roundFloat(value: number, digits: number): number {
  if (!Number.isFinite(value) || digits > 22) return value;
  if (digits < -308) return value < 0 ? -0 : 0;
  if (digits < 0) {
    const unit = 10n ** BigInt(-digits);
    const rounded = Number(roundHalfEven(BigInt(Math.trunc(value)), unit, value % 1 !== 0));
    return rounded === 0 && (value < 0 || Object.is(value, -0)) ? -0 : rounded;
  }
  return Number(toFixed(value, digits));
}

/** Rounds a whole number to a multiple of `unit`; `hasMore` says that a fraction follows it. */
function roundHalfEven(whole: bigint, unit: bigint, hasMore: boolean): bigint {
  const sign = whole < 0n ? -1n : 1n;
  const size = whole * sign;
  const down = size / unit;
  const twice = (size % unit) * 2n;
  const isUp = twice > unit || (twice === unit && (hasMore || down % 2n === 1n));
  return sign * (down + (isUp ? 1n : 0n)) * unit;
}

/** Python's `format(value, ".{digits}f")`: ties go to even, unlike in `Number.prototype.toFixed`. */
export function toFixed(value: number, digits: number): string {
  const size = Math.abs(value);
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const { mantissa, exponent } = decompose(size);
  const scaled = mantissa * 10n ** BigInt(digits);
  const rounded = exponent >= 0
    ? scaled << BigInt(exponent)
    : roundHalfEven(scaled, 1n << BigInt(-exponent), false) >> BigInt(-exponent);
  const text = rounded.toString().padStart(digits + 1, "0");
  if (digits === 0) return sign + text;
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** Splits a number that is not negative into an integer and the exponent of a power of two. */
function decompose(value: number): { readonly mantissa: bigint; readonly exponent: number } {
  const bits = new BigUint64Array(Float64Array.of(value).buffer)[0]!;
  const biased = Number(bits >> 52n & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  if (biased === 0) return { mantissa: fraction, exponent: -1074 };
  return { mantissa: fraction | 1n << 52n, exponent: biased - 1075 };
}
