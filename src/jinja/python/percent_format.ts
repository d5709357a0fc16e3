/**
 * Python's `%` operator for text: `"%s is %d" % values`.
 *
 * @module
 */
import { charge, chargeText, requireShort } from "../meter.ts";
import { Float, getTypeName, Markup, raise, toText, Tuple, type Value, valueOr } from "./values.ts";
import { Dict } from "./dict.ts";
import { codeToChar, formatSize } from "./format_spec.ts";
import { asInt, asNumber, type Int, numberToInt, requireIndex } from "./numbers.ts";
import { escapeCode, repr, str } from "./repr.ts";
import { countChars, escapeHtml, fill, sliceChars } from "./text.ts";

const FIELD =
  /%(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?([^]?)/gu;

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly type: string;
}

/** Python's `text % values`. */
export function formatPercent(format: string | Markup, values: Value): Value {
  const text = toText(format)!;
  chargeText(text.length);
  const isMarkup = format instanceof Markup;
  const given = values instanceof Tuple ? values.items : [values];
  let numTaken = 0;
  let usesNames = false;
  const take = () =>
    valueOr(given[numTaken++], () => raise("TypeError", "not enough arguments for format string"));
  let length = 0;
  const formatted = text.replaceAll(FIELD, (_, name, flags, width, precision, type) => {
    const value = name === undefined ? undefined : lookUp(values, name as string);
    usesNames ||= name !== undefined;
    const fitted: Conversion = fitWidth({
      flags: flags as string,
      width: width === "*" ? requireIndex(take()) : Number(width ?? 0),
      precision: precision === "*"
        ? Math.max(0, requireIndex(take()))
        : precision === undefined
        ? undefined
        : Number(precision),
      type: type as string,
    });
    const part = type === "%" ? "%" : convert(valueOr(value, take), fitted, isMarkup);
    charge(1);
    requireShort(length += part.length);
    return part;
  });
  const isUnused = numTaken < given.length && !usesNames && !(values instanceof Dict) &&
    !Array.isArray(values);
  if (isUnused) raise("TypeError", "not all arguments converted during string formatting");
  return isMarkup ? new Markup(formatted) : formatted;
}

function fitWidth(conversion: Conversion): Conversion {
  const { width, flags } = conversion;
  return width < 0 ? { ...conversion, width: -width, flags: `${flags}-` } : conversion;
}

function lookUp(values: Value, name: string): Value {
  if (!(values instanceof Dict)) return raise("TypeError", "format requires a mapping");
  return valueOr(values.get(name), () => raise("KeyError", `'${name}'`));
}

function convert(value: Value, conversion: Conversion, isMarkup: boolean): string {
  const { type } = conversion;
  const escape = (text: string) => isMarkup && !(value instanceof Markup) ? escapeHtml(text) : text;
  if (type === "s") return padText(escape(str(value)), conversion);
  if (type === "r") return padText(escape(repr(value)), conversion);
  if (type === "a") return padText(escape(toAscii(repr(value))), conversion);
  if (type === "c") return padText(toChar(value), conversion);
  if (type !== "" && "diuxXo".includes(type)) {
    return padNumber(formatDigits(value, conversion), conversion);
  }
  if (type !== "" && "eEfFgG".includes(type)) {
    return padNumber(formatReal(value, conversion), conversion);
  }
  if (type === "") return raise("ValueError", "incomplete format");
  return raise("ValueError", `unsupported format character '${type}'`);
}

/** Python's `ascii(value)`, given the `repr` of the value. */
export function toAscii(text: string): string {
  return text.replaceAll(/[^\0-\x7f]/gu, (char) => escapeCode(char.codePointAt(0)!));
}

function toChar(value: Value): string {
  const text = toText(value);
  if (text !== undefined && countChars(text) === 1) return text;
  const int = asInt(value);
  return int === undefined ? raise("TypeError", "%c requires int or char") : codeToChar(int);
}

interface Signed {
  readonly isNegative: boolean;
  /** A prefix such as `0x`. */
  readonly prefix: string;
  readonly size: string;
}

function formatDigits(value: Value, { type, flags, precision }: Conversion): Signed {
  const int = toWhole(value, type);
  const big = BigInt(int);
  const radix = type === "o" ? 8 : type.toLowerCase() === "x" ? 16 : 10;
  const digits = (big < 0n ? -big : big).toString(radix);
  const size = digits.length < (precision ?? 0)
    ? fill((precision ?? 0) - digits.length, "0") + digits
    : digits;
  return {
    isNegative: big < 0n,
    prefix: flags.includes("#") && radix !== 10 ? `0${type}` : "",
    size: type === "X" ? size.toUpperCase() : size,
  };
}

function toWhole(value: Value, type: string): Int {
  const int = asInt(value);
  if (int !== undefined) return int;
  if (value instanceof Float && "diu".includes(type)) return numberToInt(Math.trunc(value.value));
  const wanted = "diu".includes(type) ? "a real number" : "an integer";
  return raise("TypeError", `%${type} format: ${wanted} is required, not ${getTypeName(value)}`);
}

function formatReal(value: Value, { type, flags, precision }: Conversion): Signed {
  const number = asNumber(value) ??
    raise("TypeError", `must be real number, not ${getTypeName(value)}`);
  return {
    isNegative: number < 0 || Object.is(number, -0),
    prefix: "",
    size: formatSize(number, { type, precision, isAlternate: flags.includes("#") }),
  };
}

function padText(text: string, { width, precision, flags }: Conversion): string {
  const cut = precision === undefined ? text : sliceChars(text, 0, precision);
  const padding = fill(width - countChars(cut));
  return flags.includes("-") ? cut + padding : padding + cut;
}

function padNumber({ isNegative, prefix, size }: Signed, { width, flags }: Conversion): string {
  const sign = isNegative ? "-" : flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";
  const head = sign + prefix;
  const missing = width - head.length - size.length;
  if (flags.includes("-")) return head + size + fill(missing);
  return flags.includes("0") ? head + fill(missing, "0") + size : fill(missing) + head + size;
}
