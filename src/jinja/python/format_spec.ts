/**
 * Python's format specifications: `format(value, ">8.2f")`.
 *
 * @module
 */
import { Float, getTypeName, raise, toText, Undefined, type Value } from "./values.ts";
import {
  asInt,
  formatExponent,
  formatFloat,
  formatInfinite,
  type Int,
  toFixed,
} from "./numbers.ts";
import { str } from "./repr.ts";
import { countChars, fill, sliceChars } from "./text.ts";
import { charge } from "../meter.ts";

const SPEC =
  /^(?:([^])?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([bcdeEfFgGnosxX%])?$/u;

interface Spec {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly isAlternate: boolean;
  readonly isZeroPadded: boolean;
  readonly width: number;
  readonly group: string;
  readonly precision: number | undefined;
  readonly type: string;
}

function parseSpec(text: string): Spec | undefined {
  const match = SPEC.exec(text);
  if (match === null) return undefined;
  const [, fillChar, align, sign, , alternate, zero, width, group, precision, type] = match;
  return {
    fill: fillChar ?? (zero === undefined ? " " : "0"),
    align: align ?? "",
    sign: sign ?? "",
    isAlternate: alternate !== undefined,
    isZeroPadded: zero !== undefined,
    width: Number(width ?? 0),
    group: group ?? "",
    precision: precision === undefined ? undefined : Number(precision),
    type: type ?? "",
  };
}

/**
 * Python's `format(value, spec)`.
 *
 * @throws {TemplateError} when the type has no such format.
 */
export function formatValue(value: Value, text: string): string {
  if (text === "") return str(value);
  const hasFormats = value instanceof Float || asInt(value) !== undefined ||
    toText(value) !== undefined;
  if (!hasFormats) {
    if (value instanceof Undefined) value.fail();
    raise("TypeError", `unsupported format string passed to ${getTypeName(value)}.__format__`);
  }
  const spec = parseSpec(text) ?? raise("ValueError", `Invalid format specifier '${text}'`);
  if (toText(value) !== undefined) return formatText(toText(value)!, spec);
  if (value instanceof Float) return formatNumber(value.value, spec, "float");
  const int = asInt(value)!;
  if (spec.type !== "" && "eEfFgG%".includes(spec.type)) {
    return formatNumber(Number(int), spec, "int");
  }
  return formatInteger(int, spec);
}

function refuseCode(spec: Spec, type: string): never {
  return raise("ValueError", `Unknown format code '${spec.type}' for object of type '${type}'`);
}

function formatText(text: string, spec: Spec): string {
  if (spec.type !== "" && spec.type !== "s") refuseCode(spec, "str");
  if (spec.align === "=") {
    raise("ValueError", "'=' alignment not allowed in string format specifier");
  }
  if (spec.sign !== "" || spec.isAlternate || spec.group !== "") {
    raise("ValueError", "Sign, grouping or alternate form not allowed in string format specifier");
  }
  const cut = spec.precision === undefined ? text : sliceChars(text, 0, spec.precision);
  return pad("", cut, { ...spec, align: spec.align || "<" });
}

function formatNumber(value: number, spec: Spec, typeName: string): string {
  if (spec.type !== "" && !"eEfFgGn%".includes(spec.type)) refuseCode(spec, typeName);
  const size = formatSize(value, {
    type: spec.type === "" ? "r" : spec.type === "n" ? "g" : spec.type,
    precision: spec.precision,
    isAlternate: spec.isAlternate,
  });
  const isNegative = value < 0 || Object.is(value, -0);
  return pad(formatSign(isNegative, spec), groupDigits(size, spec), spec);
}

const RADIX: Readonly<Record<string, number>> = { b: 2, o: 8, x: 16, X: 16 };

function formatInteger(value: Int, spec: Spec): string {
  if (spec.precision !== undefined) {
    raise("ValueError", "Precision not allowed in integer format specifier");
  }
  if (spec.type === "s") refuseCode(spec, "int");
  if (spec.type === "c") {
    const align = spec.align || (spec.isZeroPadded ? "=" : "<");
    return pad("", codeToChar(value), { ...spec, align });
  }
  const radix = RADIX[spec.type] ?? 10;
  const size = BigInt(value) < 0n ? -BigInt(value) : BigInt(value);
  const digits = size.toString(radix);
  const prefix = spec.isAlternate && radix !== 10 ? `0${spec.type}` : "";
  const written = spec.type === "X" ? digits.toUpperCase() : digits;
  return pad(formatSign(size !== BigInt(value), spec) + prefix, groupDigits(written, spec), spec);
}

/** Python's `chr(value)`. */
export function codeToChar(value: Int): string {
  if (value < 0 || value > 0x10ffff) raise("OverflowError", "%c arg not in range(0x110000)");
  return String.fromCodePoint(Number(value));
}

function formatSign(isNegative: boolean, { sign }: Spec): string {
  if (isNegative) return "-";
  return sign === "-" ? "" : sign;
}

function groupDigits(text: string, spec: Spec): string {
  const { group, type } = spec;
  if (group === "") return text;
  const [, whole, rest] = /^(\w*?)((?:[.e%].*)?)$/i.exec(
    text.match(/^[\d]+(?=[e.%]|$)/) ? text : `${text}`,
  )!;
  const every = "boxX".includes(type) && type !== "" ? 4 : 3;
  if (every === 4 && group === ",") {
    raise("ValueError", `Cannot specify ',' with '${type}'.`);
  }
  const pattern = new RegExp(`\\B(?=(?:\\w{${every}})+$)`, "g");
  return whole!.replace(pattern, group) + rest;
}

function pad(sign: string, body: string, spec: Spec): string {
  const { fill: char, width } = spec;
  const align = spec.align || (spec.isZeroPadded ? "=" : ">");
  const missing = width - countChars(sign) - countChars(body);
  if (missing <= 0) return sign + body;
  if (align === "=" && char === "0" && spec.group !== "") {
    return sign + padGrouped(body, spec, width - sign.length);
  }
  if (align === "<") return sign + body + fill(missing, char);
  if (align === "=") return sign + fill(missing, char) + body;
  if (align === "^") {
    const before = Math.floor(missing / 2);
    return fill(before, char) + sign + body + fill(missing - before, char);
  }
  return fill(missing, char) + sign + body;
}

/** Pads grouped digits with zeros, which are grouped too. */
function padGrouped(body: string, spec: Spec, width: number): string {
  const [whole = "", rest = ""] = body.split(/(?=[.e%])/, 2).length === 2
    ? [body.slice(0, body.search(/[.e%]/)), body.slice(body.search(/[.e%]/))]
    : [body, ""];
  let digits = whole.replaceAll(spec.group, "");
  let padded = body;
  while (countChars(padded) < width) {
    digits = `0${digits}`;
    padded = groupDigits(digits, spec) + rest;
    fill(1);
  }
  return padded;
}

/** More digits than any float has. */
const MAX_PRECISION = 1200;

interface FloatFormat {
  /**
   * One of `eEfFgG%`, or `r` for an empty type. `r` without a precision gives the shortest text that reads back as the
   * same number; with a precision it is like `g`, but the text always has a point or an exponent.
   */
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
 * Splits a number into the digits and the exponent of its exponential notation. JavaScript rounds by the exact value,
 * as Python does, but rounds ties up, where Python rounds them to even.
 */
function splitExponent(size: number, precision: number): [string, number] {
  const text = precision <= 100
    ? size.toExponential(precision)
    : size.toExponential(100).replace("e", `${"0".repeat(precision - 100)}e`);
  const [digits, exponent] = text.split("e");
  const exact = toFixedExact(size, precision, Number(exponent));
  return exact ?? [digits!, Number(exponent)];
}

/**
 * Like {@linkcode splitExponent}, with ties rounded to even; `undefined` if the number is 0, or if its last digit is
 * before the point or more than 400 places after it.
 */
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
