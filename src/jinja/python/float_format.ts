/**
 * Python's float formats `e`, `f`, `g` and `%`.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { raise } from "../template_error.ts";
import { formatExponent, formatFloat, formatInfinite, toFixed } from "./numbers.ts";

/** More digits than any float has. */
const MAX_PRECISION = 1200;

interface FloatFormat {
  /** One of `eEfFgG%`; or `r`, the shortest text that reads back as the same number, for `repr` and an empty type. */
  readonly type: string;
  readonly precision: number | undefined;
  /** The flag `#`, which keeps the point and trailing zeros. */
  readonly isAlternate: boolean;
}

/**
 * Formats the absolute value of a number.
 *
 * @throws {TemplateError} when the precision is too large.
 */
export function formatSize(value: number, format: FloatFormat): string {
  const { type, precision, isAlternate } = format;
  if (precision !== undefined && precision > MAX_PRECISION) {
    raise("ValueError", `precision too big: at most ${MAX_PRECISION}`);
  }
  charge(precision ?? 0);
  const size = Math.abs(value);
  if (!Number.isFinite(size)) {
    const text = formatInfinite(size) + (type === "%" ? "%" : "");
    return /[EFG]/.test(type) ? text.toUpperCase() : text;
  }
  const point = isAlternate && precision === 0 ? "." : "";
  if (type === "f" || type === "F") return toFixed(size, precision ?? 6) + point;
  if (type === "%") return `${toFixed(size * 100, precision ?? 6)}${point}%`;
  if (type === "r") {
    return precision === undefined ? formatFloat(size) : formatGeneral(size, format);
  }
  const text = type === "e" || type === "E"
    ? formatScientific(size, precision ?? 6, point)
    : formatGeneral(size, format);
  return type === "E" || type === "G" ? text.toUpperCase() : text;
}

function formatScientific(size: number, precision: number, point: string): string {
  const [digits, exponent] = splitExponent(size, precision);
  return `${digits}${point}e${formatExponent(exponent)}`;
}

/**
 * JavaScript also rounds exponential notation by the exact value, but rounds ties up, where Python rounds them to even.
 */
function splitExponent(size: number, precision: number): [string, number] {
  const text = precision <= 100
    ? size.toExponential(precision)
    : size.toExponential(100).replace("e", `${"0".repeat(precision - 100)}e`);
  const [digits, exponent] = text.split("e");
  const exact = toFixedExact(size, precision, Number(exponent));
  return exact ?? [digits!, Number(exponent)];
}

/** The digits of a number that toFixed can write, with ties rounded to even. */
function toFixedExact(
  size: number,
  precision: number,
  exponent: number,
): [string, number] | undefined {
  const places = precision - exponent;
  if (size === 0 || places < 0 || places > 400) return undefined;
  const all = toFixed(size, places).replace(".", "").replace(/^0+/, "");
  const isLonger = all.length > precision + 1;
  const digits = isLonger ? all.slice(0, -1) : all;
  const written = precision === 0 ? digits : `${digits[0]}.${digits.slice(1)}`;
  return [written, all.length - 1 - places];
}

function formatGeneral(size: number, { precision = 6, isAlternate, type }: FloatFormat): string {
  const significant = Math.max(1, precision);
  const [, exponent] = splitExponent(size, significant - 1);
  const trim = (text: string) =>
    isAlternate || !text.includes(".") ? text : text.replace(/\.?0+$/, "");
  // Without a type, exponents are used earlier, so that a float does not look like an int.
  const limit = type === "r" ? significant - 1 : significant;
  if (exponent < -4 || exponent >= Math.max(limit, type === "r" ? 0 : 1)) {
    const [digits] = splitExponent(size, significant - 1);
    return `${trim(digits)}e${formatExponent(exponent)}`;
  }
  const text = trim(toFixed(size, Math.max(0, significant - 1 - exponent)));
  return type === "r" && !text.includes(".") ? `${text}.0` : text;
}
