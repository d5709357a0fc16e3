/**
 * Operations on collections of any type: truth, length, iteration.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { raise } from "../template_error.ts";
import { Dict, DictView } from "./dict.ts";
import { countChars, splitChars } from "./text.ts";
import {
  Bytes,
  Float,
  getTypeName,
  Markup,
  PyIterator,
  Range,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

/** Python's `bool(value)`. */
export function isTrue(value: Value): boolean {
  if (typeof value === "boolean") return value;
  if (value === null) return false;
  if (typeof value === "string") return value !== "";
  if (typeof value === "number") return value !== 0;
  if (typeof value === "bigint") return value !== 0n;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Undefined) return false;
  return getLength(value) !== 0;
}

/** Python's `len(value)`; `undefined` where it raises a TypeError. */
export function getLength(value: Value): number | undefined {
  if (typeof value === "string") return countChars(value);
  if (Array.isArray(value)) return value.length;
  if (value instanceof Tuple) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof Markup) return countChars(value.text);
  if (value instanceof DictView) return value.dict.size;
  if (value instanceof Range) return value.length;
  if (value instanceof Undefined) return 0;
  if (value instanceof Bytes) return value.bytes.length;
  const length = value === null || typeof value !== "object"
    ? undefined
    : value.attribute("__len__");
  return typeof length === "number" ? length : undefined;
}

/**
 * Python's `len(value)`.
 *
 * @throws {TemplateError}
 */
export function requireLength(value: Value): number {
  return getLength(value) ??
    raise("TypeError", `object of type '${getTypeName(value)}' has no len()`);
}

/** Python's `iter(value)`; `undefined` where it raises a TypeError. */
export function tryIterate(value: Value): Iterator<Value> | undefined {
  if (Array.isArray(value)) return value[Symbol.iterator]();
  if (typeof value === "string") return splitChars(value)[Symbol.iterator]();
  if (value instanceof Tuple) return value.items[Symbol.iterator]();
  if (value instanceof Dict) return value.keys();
  if (value instanceof DictView) return value.iterate();
  if (value instanceof PyIterator) return value.values;
  if (value instanceof Range) return iterateRange(value);
  if (value instanceof Undefined) return [][Symbol.iterator]();
  if (value instanceof Markup) return splitChars(value.text)[Symbol.iterator]();
  if (value instanceof Bytes) return value.bytes[Symbol.iterator]();
  return undefined;
}

/**
 * Yields the values of a collection; the meter counts each of them.
 *
 * @throws {TemplateError}
 */
export function* iterate(value: Value): Generator<Value> {
  const values = tryIterate(value) ??
    raise("TypeError", `'${getTypeName(value)}' object is not iterable`);
  // Not a `for` loop, which would close the iterator: iterating again must go on where this stopped.
  for (let next = values.next(); next.done !== true; next = values.next()) {
    charge(2);
    yield next.value;
  }
}

/**
 * Python's `list(value)`.
 *
 * @throws {TemplateError}
 */
export function toList(value: Value): Value[] {
  if (Array.isArray(value)) {
    charge(value.length);
    return value.slice();
  }
  return [...iterate(value)];
}

function* iterateRange({ start, step, length }: Range): Generator<Value> {
  for (let i = 0; i < length; i++) yield start + i * step;
}

/** Python's `reversed(value)`; `undefined` where it raises a TypeError. */
export function tryReverse(value: Value): PyIterator | undefined {
  if (Array.isArray(value)) {
    return new PyIterator(value.toReversed()[Symbol.iterator](), "list_reverseiterator");
  }
  const isSequence = value instanceof Tuple || value instanceof Dict || value instanceof DictView ||
    value instanceof Range || value instanceof Bytes;
  if (!isSequence) return undefined;
  return new PyIterator(toList(value).reverse()[Symbol.iterator](), "reversed");
}
