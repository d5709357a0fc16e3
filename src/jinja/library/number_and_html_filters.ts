/**
 * The filters for numbers, for HTML and URLs, and `default`.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import { Dict, isTrue, iterate, toList, tryIterate } from "../python/collections.ts";
import { escape, str } from "../python/repr.ts";
import { type Native, native } from "../python/call.ts";
import {
  Float,
  getTypeName,
  isRaised,
  Markup,
  raise,
  toItems,
  toText,
  Undefined,
  type Value,
} from "../python/values.ts";
import {
  asInt,
  asNumber,
  numberToInt,
  parseFloat,
  parseInteger,
  requireIndex,
  roundFloat,
  toFixed,
  toInt,
} from "../python/numbers.ts";

export const HTML_FILTERS: Readonly<Record<string, Native>> = {
  e: native("s", (value: Value) => new Markup(escape(value))),
  escape: native("s", (value: Value) => new Markup(escape(value))),
  forceescape: native("value", (value: Value) => new Markup(escape(str(value)))),
  urlencode: native("value", urlEncode),
};

function urlEncode(value: Value): string {
  if (toText(value) !== undefined || tryIterate(value) === undefined) return quoteUrl(value, false);
  const pairs = value instanceof Dict ? value.entries() : Array.from(iterate(value), toPair);
  return Array.from(pairs, ([key, each]) => `${quoteUrl(key, true)}=${quoteUrl(each, true)}`).join(
    "&",
  );
}

function toPair(value: Value): readonly [Value, Value] {
  const items = toItems(value) ?? toList(value);
  if (items.length !== 2) raise("ValueError", "urlencode takes pairs");
  return [items[0]!, items[1]!];
}

function quoteUrl(value: Value, isQuery: boolean): string {
  const text = str(value);
  chargeText(text.length * 8);
  const quoted = encodeURIComponent(text.toWellFormed())
    .replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return isQuery ? quoted.replaceAll("%20", "+") : quoted.replaceAll("%2F", "/");
}

const defaultValue = native(
  "value, default_value, boolean",
  (value: Value, other: Value = "", isBoolean: Value = false) =>
    value instanceof Undefined || (isTrue(isBoolean) && !isTrue(value)) ? other : value,
);

export const NUMBER_FILTERS: Readonly<Record<string, Native>> = {
  abs: native("x", (value: Value) => {
    if (value instanceof Float) return new Float(Math.abs(value.value));
    const int = asInt(value);
    if (int !== undefined) return int < 0 ? toInt(-BigInt(int)) : int;
    return raise("TypeError", `bad operand type for abs(): '${getTypeName(value)}'`);
  }),
  d: defaultValue,
  default: defaultValue,
  filesizeformat: native(
    "value, binary",
    (value: Value, isBinary: Value = false) => formatSize(toNumber(value), isTrue(isBinary)),
  ),
  float: native("value, default", (value: Value, other: Value = new Float(0)) => {
    const number = tryNumber(value);
    return number === undefined ? other : new Float(number);
  }),
  int: native(
    "value, default, base",
    (value: Value, other: Value = 0, base: Value = 10) =>
      toInteger(value, requireIndex(base)) ?? other,
  ),
  round: native(
    "value, precision, method",
    (value: Value, precision: Value = 0, method: Value = "common") => {
      if (method !== "common" && method !== "ceil" && method !== "floor") {
        raise("FilterArgumentError", "method must be common, ceil or floor");
      }
      const digits = requireIndex(precision);
      const number = asNumber(value) ??
        raise("TypeError", `type ${getTypeName(value)} doesn't define __round__ method`);
      if (method === "common") {
        const int = asInt(value);
        if (int === undefined) return new Float(roundFloat(number, digits));
        return digits >= 0 ? int : roundInt(BigInt(int), digits);
      }
      const unit = 10 ** digits;
      const whole = method === "ceil" ? Math.ceil(number * unit) : Math.floor(number * unit);
      return new Float(whole / unit);
    },
  ),
};

function roundInt(value: bigint, digits: number): Value {
  if (digits < -400) return 0;
  const unit = 10n ** BigInt(-digits);
  const size = value < 0n ? -value : value;
  const [down, rest] = [size / unit, size % unit * 2n];
  const rounded = (rest > unit || (rest === unit && down % 2n === 1n) ? down + 1n : down) * unit;
  return toInt(value < 0n ? -rounded : rounded);
}

/** Python's `float(value)`; `undefined` where that raises a TypeError or a ValueError. */
function tryNumber(value: Value): number | undefined {
  if (value instanceof Undefined) value.fail();
  const text = toText(value);
  return text === undefined ? asNumber(value) : parseFloat(text);
}

function toNumber(value: Value): number {
  return tryNumber(value) ?? raise("ValueError", "could not convert to float");
}

function toInteger(value: Value, base: number): Value | undefined {
  if (value instanceof Undefined) value.fail();
  const text = toText(value);
  const int = text === undefined ? asInt(value) : parseInteger(text, base);
  if (int !== undefined) return int;
  const number = tryNumber(value);
  if (number === undefined) return undefined;
  try {
    return numberToInt(Math.trunc(number));
  } catch (error) {
    if (isRaised(error, "ValueError")) return undefined;
    throw error;
  }
}

function formatSize(bytes: number, isBinary: boolean): string {
  const base = isBinary ? 1024 : 1000;
  if (bytes === 1) return "1 Byte";
  if (bytes < base) return `${numberToInt(Math.trunc(bytes))} Bytes`;
  const letters = isBinary ? "KMGTPEZY" : "kMGTPEZY";
  const power = Array.from(letters).findIndex((_, index) => bytes < base ** (index + 2));
  const at = power < 0 ? letters.length - 1 : power;
  return `${toFixed(base * bytes / base ** (at + 2), 1)} ${letters[at]}${isBinary ? "iB" : "B"}`;
}
