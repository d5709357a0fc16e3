/**
 * The methods and attributes of lists, tuples, dicts and numbers.
 *
 * @module
 */
import { Bytes, Float, raise, Range, toItems, Tuple, type Value, valueOr } from "./values.ts";
import { areEqual } from "./compare.ts";
import { Dict, DictView } from "./dict.ts";
import { iterate } from "./collections.ts";
import { type Int, requireIndex } from "./numbers.ts";
import { repr } from "./repr.ts";
import { type Native, native } from "./call.ts";

/** Methods by name. Each entry binds the method to a value. */
type Methods<T extends Value> = Readonly<Record<string, (self: T) => Native>>;

const SEQUENCE_METHODS: Methods<Value> = {
  count: (self) =>
    native(
      "_value",
      (value: Value) => [...iterate(self)].filter((each) => areEqual(each, value)).length,
    ),
  index: (self) =>
    native(
      "_value, _start, _stop",
      (value: Value, start: Value = 0, stop: Value = Number.MAX_SAFE_INTEGER) => {
        const items = toItems(self) ?? [...iterate(self)];
        const at = (bound: number) => bound < 0 ? Math.max(0, bound + items.length) : bound;
        const [from, to] = [at(requireIndex(start)), at(requireIndex(stop))];
        const found = items.findIndex((each, index) =>
          index >= from && index < to && areEqual(each, value)
        );
        return found < 0 ? raise("ValueError", `${repr(value)} is not in list`) : found;
      },
    ),
};

/** The sandbox refuses methods that change a list; these are all others. */
const LIST_METHODS: Methods<Value[]> = {
  ...SEQUENCE_METHODS,
  clear: (self) =>
    native("", () => {
      self.length = 0;
      return null;
    }),
  copy: (self) => native("", () => self.slice()),
  pop: (self) =>
    native("_index", (index: Value = -1) => {
      if (self.length === 0) raise("IndexError", "pop from empty list");
      const at = requireIndex(index);
      if (at >= self.length || at < -self.length) raise("IndexError", "pop index out of range");
      return self.splice(at, 1)[0]!;
    }),
};

const DICT_METHODS: Methods<Dict> = {
  copy: (self) => native("", () => new Dict(self.entries())),
  fromkeys: () =>
    native(
      "_iterable, _value",
      (keys: Value, value: Value = null) =>
        new Dict(Array.from(iterate(keys), (key) => [key, value] as const)),
    ),
  get: (self) =>
    native(
      "_key, _default",
      (key: Value, otherwise: Value = null) => valueOr(self.get(key), () => otherwise),
    ),
  items: (self) => native("", () => new DictView(self, "items")),
  keys: (self) => native("", () => new DictView(self, "keys")),
  values: (self) => native("", () => new DictView(self, "values")),
};

/** Methods that would change a value of the request, which the sandbox refuses. */
const REFUSED: Readonly<Record<string, ReadonlySet<string>>> = {
  list: new Set(["append", "extend", "insert", "remove", "reverse", "sort"]),
  dict: new Set(["clear", "pop", "popitem", "setdefault", "update"]),
};

/** Whether the sandbox refuses access to a method because it would change the value. */
export function isRefused(typeName: string, name: string): boolean {
  return REFUSED[typeName]?.has(name) ?? false;
}

const INT_METHODS: Methods<Int> = {
  as_integer_ratio: (self) => native("", () => new Tuple([self, 1])),
  bit_count: (self) => native("", () => absolute(self).toString(2).replaceAll("0", "").length),
  bit_length: (self) =>
    native("", () => Number(self) === 0 ? 0 : absolute(self).toString(2).length),
  conjugate: (self) => native("", () => self),
};

function absolute(value: Int): bigint {
  return BigInt(value) < 0n ? -BigInt(value) : BigInt(value);
}

const FLOAT_METHODS: Methods<Float> = {
  conjugate: (self) => native("", () => self),
  is_integer: ({ value }) => native("", () => Number.isInteger(value)),
};

const BYTES_METHODS: Methods<Bytes> = {
  decode: ({ bytes }) => native("encoding, errors", () => new TextDecoder().decode(bytes)),
  hex: ({ bytes }) => native("", () => bytes.toHex()),
};

/** Finds a method of a value that is not a str. */
export function findMethod(value: Value, name: string): Native | undefined {
  if (value instanceof Dict) return own(DICT_METHODS, name)?.(value);
  if (Array.isArray(value)) return own(LIST_METHODS, name)?.(value);
  if (value instanceof Tuple || value instanceof Range) return own(SEQUENCE_METHODS, name)?.(value);
  if (value instanceof Float) return own(FLOAT_METHODS, name)?.(value);
  if (value instanceof Bytes) return own(BYTES_METHODS, name)?.(value);
  if (typeof value === "number" || typeof value === "bigint") {
    return own(INT_METHODS, name)?.(value);
  }
  return typeof value === "boolean" ? own(INT_METHODS, name)?.(Number(value)) : undefined;
}

function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Finds a field of a number, such as `real`. */
export function findField(value: Value, name: string): Value | undefined {
  if (value instanceof Float) {
    return name === "real" ? value : name === "imag" ? new Float(0) : undefined;
  }
  if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") {
    return undefined;
  }
  const int = typeof value === "boolean" ? Number(value) : value;
  if (name === "real" || name === "numerator") return int;
  if (name === "imag") return 0;
  return name === "denominator" ? 1 : undefined;
}
