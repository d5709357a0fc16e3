/**
 * Python's dict and its views.
 *
 * @module
 */
import {
  Float,
  getTypeName,
  Markup,
  PyObject,
  raise,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { charge, chargeText } from "../meter.ts";

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
    // The key keeps the spelling under which it was first set: 1 or 1.0.
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
  if (value instanceof Float) return keyOfFloat(value.value);
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

function keyOfFloat(value: number): Key {
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
