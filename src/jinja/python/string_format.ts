/**
 * Python's ways to format text: `"{} is {n:>4}".format(…)` and `"%s is %d" % values`.
 *
 * @module
 */
import { charge, chargeText, requireShort } from "../meter.ts";
import {
  type Arguments,
  Float,
  getTypeName,
  Markup,
  raise,
  toText,
  Tuple,
  type Value,
  valueOr,
} from "./values.ts";
import { codeToChar, formatSize, formatValue } from "./format_spec.ts";
import { escapeCode, repr, str } from "./repr.ts";
import { countChars, escapeHtml, fill, sliceChars } from "./text.ts";
import { Dict } from "./collections.ts";
import { asInt, asNumber, type Int, numberToInt, requireIndex } from "./numbers.ts";

const MAX_NESTING = 2;
/** An attribute or an item in a field, after the field's name. */
const PATH = /\.([^.[]*)|\[([^\]]*)\]/y;

/** How fields access attributes and items: by the sandbox's rules. */
export interface FieldAccess {
  attribute(value: Value, name: string): Value;
  item(value: Value, key: Value): Value;
}

interface Formatting {
  readonly args: Arguments;
  readonly access: FieldAccess;
  readonly isMarkup: boolean;
  /** Index of the next automatic field; `manual` after a field with a number. */
  next: number | "manual";
}

/** Implements `format.format(*args)`. */
export function formatBraces(
  format: string,
  options: { readonly args: Arguments; readonly access: FieldAccess; readonly isMarkup: boolean },
): string {
  return formatText(format, { ...options, next: 0 }, MAX_NESTING);
}

function formatText(format: string, formatting: Formatting, depth: number): string {
  if (depth < 0) raise("ValueError", "Max string recursion exceeded");
  chargeText(format.length);
  const parts: string[] = [];
  let length = 0;
  let at = 0;
  while (at < format.length) {
    const next = format.slice(at).search(/[{}]/);
    const part = next < 0 ? format.slice(at) : format.slice(at, at + next);
    parts.push(part);
    if (next < 0) break;
    at += next;
    const char = format[at]!;
    if (format[at + 1] === char) {
      parts.push(char);
      at += 2;
      continue;
    }
    if (char === "}") raise("ValueError", "Single '}' encountered in format string");
    const end = findEnd(format, at);
    const field = formatField(format.slice(at + 1, end), formatting, depth);
    requireShort(length += field.length + part.length);
    parts.push(field);
    at = end + 1;
  }
  return parts.join("");
}

/** The end of the field that begins at `start`. */
function findEnd(format: string, start: number): number {
  let depth = 0;
  let isSpec = false;
  for (let i = start; i < format.length; i++) {
    const char = format[i];
    if (char === "{") depth++;
    else if (char === "}" && --depth === 0) return i;
    else if (char === ":") isSpec = true;
    else if (char === "[" && depth === 1 && !isSpec) {
      // Anything in brackets is a key.
      const close = format.indexOf("]", i);
      if (close < 0) break;
      i = close;
    }
  }
  return raise("ValueError", "expected '}' before end of string");
}

function formatField(field: string, formatting: Formatting, depth: number): string {
  const [, path = "", conversion, spec = ""] =
    /^((?:\[[^\]]*\]|[^:![])*)(?:!([^:]*))?(?::([^]*))?$/.exec(field) ?? [];
  const value = findFieldValue(path, formatting);
  const converted = convertField(value, conversion);
  const format = formatText(spec, formatting, depth - 1);
  return formatEscaped(converted, format, formatting.isMarkup);
}

function formatEscaped(value: Value, spec: string, isMarkup: boolean): string {
  if (!isMarkup) return formatValue(value, spec);
  return value instanceof Markup && spec === "" ? value.text : escapeHtml(formatValue(value, spec));
}

function convertField(value: Value, conversion: string | undefined): Value {
  if (conversion === undefined) return value;
  if (conversion === "s") return str(value);
  if (conversion === "r") return repr(value);
  if (conversion === "a") return toAscii(repr(value));
  return raise("ValueError", `Unknown conversion specifier '${conversion}'`);
}

function findFieldValue(path: string, formatting: Formatting): Value {
  const { args, access } = formatting;
  const name = /^[^.[]*/.exec(path)![0];
  let value = findArgument(name, formatting, args);
  PATH.lastIndex = name.length;
  while (PATH.lastIndex < path.length) {
    const match = PATH.exec(path) ??
      raise("ValueError", "Only '.' or '[' may follow ']' in format field specifier");
    const [, attribute, item = ""] = match;
    value = attribute !== undefined
      ? access.attribute(value, attribute)
      : access.item(value, /^\d+$/.test(item) ? Number(item) : item);
  }
  return value;
}

function findArgument(name: string, formatting: Formatting, args: Arguments): Value {
  if (name !== "" && !/^\d+$/.test(name)) {
    return valueOr(args.named.get(name), () => raise("KeyError", `'${name}'`));
  }
  const isManual = name !== "";
  if (formatting.next !== (isManual ? "manual" : formatting.next) && formatting.next !== 0) {
    raise(
      "ValueError",
      "cannot switch from automatic field numbering to manual field specification",
    );
  }
  if (!isManual && formatting.next === "manual") {
    raise(
      "ValueError",
      "cannot switch from manual field specification to automatic field numbering",
    );
  }
  const index = isManual ? Number(name) : formatting.next as number;
  formatting.next = isManual ? "manual" : index + 1;
  return valueOr(
    args.positional[index],
    () => raise("IndexError", `Replacement index ${index} out of range for positional args tuple`),
  );
}

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
function toAscii(text: string): string {
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
