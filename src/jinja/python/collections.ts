/**
 * Python's dict and its views, and operations on collections of any type: truth, length, iteration, `value[index]` and
 * `value[start:stop:step]`.
 *
 * @module
 */
import { charge, chargeText } from "../meter.ts";
import {
  Bytes,
  Float,
  getTypeName,
  Markup,
  PyIterator,
  PyObject,
  raise,
  Range,
  toItems,
  toText,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { countChars, isWide, sliceChars, splitChars } from "./text.ts";
import { asInt, requireIndex } from "./numbers.ts";

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

/** Python's `len(value)`. */
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

/** Yields the values of a collection; the meter counts each of them. */
export function* iterate(value: Value): Generator<Value> {
  const values = tryIterate(value) ??
    raise("TypeError", `'${getTypeName(value)}' object is not iterable`);
  // A `for` loop would close the iterator when it is left, but iterating again must go on where this loop stopped.
  for (let next = values.next(); next.done !== true; next = values.next()) {
    charge(2);
    yield next.value;
  }
}

/** Python's `list(value)`. */
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

export class Slice extends PyObject {
  readonly typeName = "slice";
  readonly start: Value;
  readonly stop: Value;
  readonly step: Value;

  constructor(start: Value, stop: Value, step: Value) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
  }
}

/**
 * Python's `value[key]`; `undefined` if there is no such item.
 *
 * @throws {TemplateError} when the key of a dict cannot be hashed, or the bounds of a slice are not ints.
 */
export function getItem(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return value.get(key);
  if (key instanceof Slice) return getSlice(value, key);
  const index = asInt(key);
  if (index === undefined) return undefined;
  return itemAt(value, Number(index));
}

function itemAt(value: Value, index: number): Value | undefined {
  const items = toItems(value);
  if (items !== undefined) return items.at(index);
  const text = toText(value);
  if (text !== undefined) {
    const char = isWide(text) ? splitChars(text).at(index) : text.at(index);
    return char !== undefined && value instanceof Markup ? new Markup(char) : char;
  }
  if (value instanceof Range) {
    const at = index < 0 ? index + value.length : index;
    return at >= 0 && at < value.length ? value.start + at * value.step : undefined;
  }
  return value instanceof Bytes ? value.bytes.at(index) : undefined;
}

/** The bounds of a slice in a sequence: Python's `slice.indices`. */
function resolveBounds({ start, stop, step }: Slice, length: number) {
  const stride = step === null ? 1 : requireIndex(step);
  if (stride === 0) raise("ValueError", "slice step cannot be zero");
  const [lowest, highest] = stride > 0 ? [0, length] : [-1, length - 1];
  const clamp = (bound: Value, otherwise: number) => {
    if (bound === null) return otherwise;
    const at = requireIndex(bound);
    return Math.min(highest, Math.max(lowest, at < 0 ? at + length : at));
  };
  return {
    from: clamp(start, stride > 0 ? lowest : highest),
    to: clamp(stop, stride > 0 ? highest : lowest),
    stride,
  };
}

function getSlice(value: Value, slice: Slice): Value | undefined {
  const text = toText(value);
  const items = toItems(value);
  if (text === undefined && items === undefined && !(value instanceof Range)) return undefined;
  const { from, to, stride } = resolveBounds(slice, requireLength(value));
  if (text !== undefined) {
    const cut = stride === 1
      ? sliceChars(text, from, to)
      : pick(splitChars(text), from, to, stride).join("");
    return value instanceof Markup ? new Markup(cut) : cut;
  }
  if (value instanceof Range) {
    const { start, step } = value;
    return new Range(start + from * step, start + to * step, step * stride);
  }
  const picked = pick(items!, from, to, stride);
  return value instanceof Tuple ? new Tuple(picked) : picked;
}

function pick<T>(items: readonly T[], from: number, to: number, stride: number): T[] {
  charge(Math.abs(to - from) / Math.abs(stride));
  if (stride === 1) return items.slice(from, Math.max(from, to));
  const picked: T[] = [];
  for (let i = from; stride > 0 ? i < to : i > to; i += stride) picked.push(items[i]!);
  return picked;
}

type Key = string | number | bigint | null | object;

export class Dict extends PyObject {
  readonly typeName = "dict";
  readonly #entries = new Map<Key, readonly [Value, Value]>();

  constructor(entries: Iterable<readonly [Value, Value]> = []) {
    super();
    for (const [key, value] of entries) this.set(key, value);
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(toKey(key))?.[1];
  }

  has(key: Value): boolean {
    return this.#entries.has(toKey(key));
  }

  set(key: Value, value: Value): void {
    const id = toKey(key);
    // A key keeps the form in which it was set first, such as 1 or 1.0.
    this.#entries.set(id, [this.#entries.get(id)?.[0] ?? key, value]);
  }

  clear(): void {
    this.#entries.clear();
  }

  *keys(): Generator<Value> {
    for (const [key] of this.#entries.values()) yield key;
  }

  *values(): Generator<Value> {
    for (const [, value] of this.#entries.values()) yield value;
  }

  entries(): IterableIterator<readonly [Value, Value]> {
    return this.#entries.values();
  }
}

/** Python's `dict.keys()`, `.values()` and `.items()`. */
export class DictView extends PyObject {
  readonly typeName: string;
  readonly dict: Dict;
  readonly what: "keys" | "values" | "items";

  constructor(dict: Dict, what: "keys" | "values" | "items") {
    super();
    this.dict = dict;
    this.what = what;
    this.typeName = `dict_${what}`;
  }

  *iterate(): Generator<Value> {
    for (const [key, value] of this.dict.entries()) {
      yield this.what === "keys" ? key : this.what === "values" ? value : new Tuple([key, value]);
    }
  }
}

/** The key for all undefined values, which are equal. */
const UNDEFINED_KEY = {};

/**
 * Maps equal keys to the same JavaScript value: 1, 1.0 and True are one key.
 *
 * @throws {TemplateError} when the value cannot be a key.
 */
export function toKey(value: Value): Key {
  if (typeof value === "string") {
    if (value.length > 64) chargeText(value.length);
    return value;
  }
  if (value === null || typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "boolean") return Number(value);
  if (value instanceof Markup) return value.text;
  if (value instanceof Float) return toFloatKey(value.value);
  if (value instanceof Tuple) {
    charge(value.items.length);
    return `\0tuple${value.items.map((item) => describeKey(toKey(item))).join("\0")}`;
  }
  if (value instanceof Undefined) return UNDEFINED_KEY;
  if (Array.isArray(value) || value instanceof Dict) {
    raise("TypeError", `unhashable type: '${getTypeName(value)}'`);
  }
  return value;
}

function toFloatKey(value: number): Key {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(value) : value;
}

function describeKey(key: Key): string {
  return typeof key === "object" && key !== null ? `o${identify(key)}` : `${typeof key}${key}`;
}

const ids = new WeakMap<object, number>();
let numIds = 0;

function identify(key: object): number {
  const id = ids.get(key) ?? ++numIds;
  ids.set(key, id);
  return id;
}
