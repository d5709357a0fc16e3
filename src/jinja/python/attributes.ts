/**
 * Python's `value.name` and `value[key]`, with the restrictions of Jinja2's sandbox, and the methods and fields of
 * lists, tuples, dicts, numbers and bytes.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import {
  type Arguments,
  Bytes,
  Callable,
  Float,
  getTypeName,
  isRaised,
  Markup,
  NO_NAMED,
  PyObject,
  raise,
  Range,
  toItems,
  toText,
  Tuple,
  Undefined,
  UNSAFE_NAMES,
  type Value,
  valueOr,
} from "./values.ts";
import { escape, repr, str } from "./repr.ts";
import { type FieldAccess, formatBraces } from "./string_format.ts";
import { Dict, DictView, getItem, iterate } from "./collections.ts";
import { callNative, type Native, native } from "./call.ts";
import { joinTexts, STRING_METHODS } from "./string_methods.ts";
import { areEqual } from "./compare.ts";
import { type Int, requireIndex } from "./numbers.ts";

/**
 * Gets `value.name`: an attribute, or an item if there is no attribute.
 *
 * @throws {TemplateError} if the value is undefined.
 */
export function getAttribute(value: Value, name: string): Value {
  const found = findAttribute(value, name);
  if (found !== undefined) return found;
  const item = getItem(value, name);
  if (item === undefined && value instanceof Undefined) value.fail();
  return valueOr(item, () => missing(value, name));
}

/**
 * Gets `value[key]`: an item, or an attribute if there is no item.
 *
 * @throws {TemplateError} if the value is undefined.
 */
export function getSubscript(value: Value, key: Value): Value {
  if (value instanceof Undefined) value.fail();
  const item = tryItem(value, key);
  if (item !== undefined) return item;
  const name = toText(key);
  const attribute = name === undefined ? undefined : findAttribute(value, name);
  return valueOr(attribute, () => missing(value, key));
}

/**
 * Gets `value[start:stop:step]` as Python does. Jinja2 leaves this to Python at run time, unless the whole expression
 * is constant: then it does the same as {@linkcode getSubscript}.
 *
 * @throws {TemplateError} if the value is not a sequence.
 */
export function getRange(value: Value, slice: Value): Value {
  if (value instanceof Undefined) value.fail();
  return getItem(value, slice) ??
    raise("TypeError", `'${getTypeName(value)}' object is not subscriptable`);
}

function tryItem(value: Value, key: Value): Value | undefined {
  try {
    return getItem(value, key);
  } catch (error) {
    if (isRaised(error, "TypeError")) return undefined;
    throw error;
  }
}

function missing(value: Value, key: Value): Undefined {
  const owner = value === null ? "None" : `'${getTypeName(value)} object'`;
  const name = toText(key);
  return new Undefined(
    name === undefined
      ? `${getTypeName(value)} object has no element ${repr(key)}`
      : `${owner} has no attribute '${name}'`,
  );
}

/** Finds an attribute, ignoring items; `undefined` if there is none. */
export function findAttribute(value: Value, name: string): Value | undefined {
  if (name.startsWith("_")) {
    return UNSAFE_NAMES.has(name) ? refuse(value, name) : undefined;
  }
  if (value instanceof PyObject) {
    const own = value.attribute(name);
    if (own !== undefined) return own;
  }
  const text = toText(value);
  if (text !== undefined) return stringMethod(value as string | Markup, text, name);
  if (isRefused(getTypeName(value), name)) return refuse(value, name);
  const method = findMethod(value, name);
  if (method === undefined) return findField(value, name);
  return new Callable(name, (args) => callNative(name, method, args), {
    typeName: "builtin_function_or_method",
  });
}

function refuse(value: Value, name: string): Undefined {
  return new Undefined(
    `access to attribute '${name}' of '${getTypeName(value)}' object is unsafe.`,
    "SecurityError",
  );
}

/** How the fields of `str.format` access attributes and items. */
const ACCESS: FieldAccess = { attribute: getAttribute, item: getSubscript };

function stringMethod(self: string | Markup, text: string, name: string): Value | undefined {
  const options = { typeName: "builtin_function_or_method" };
  const isMarkup = self instanceof Markup;
  if (name === "format" || name === "format_map") {
    return new Callable(name, (args) => {
      const fields = name === "format" ? args : toFields(args);
      const formatted = formatBraces(text, { args: fields, access: ACCESS, isMarkup });
      return isMarkup ? new Markup(formatted) : formatted;
    }, options);
  }
  if (!Object.hasOwn(STRING_METHODS, name)) return undefined;
  const method = STRING_METHODS[name]!;
  return new Callable(name, (args) => {
    chargeText(text.length);
    const call = ({ positional, named }: Arguments) =>
      callNative(name, method, { positional: [text, ...positional], named });
    return isMarkup ? callOnMarkup(name, text, args, call) : call(args);
  }, options);
}

function toFields({ positional: [mapping] }: Arguments): Arguments {
  const named = new Map<string, Value>();
  if (mapping instanceof Dict) {
    for (const [key, value] of mapping.entries()) named.set(str(key), value);
  }
  return { positional: [], named };
}

/** Methods of Markup that escape their arguments. */
const ESCAPING = new Set(
  `capitalize title lower upper replace ljust rjust lstrip rstrip center strip translate expandtabs swapcase zfill
  casefold removeprefix removesuffix`.split(/\s+/),
);
/** Methods of Markup that return its parts, which are Markup too. */
const SPLITTING = new Set(["split", "rsplit", "splitlines", "partition", "rpartition"]);

function callOnMarkup(
  name: string,
  text: string,
  args: Arguments,
  call: (args: Arguments) => Value,
): Value {
  if (name === "join") {
    const values = Array.from(iterate(args.positional[0] ?? []), escape);
    return new Markup(joinTexts(text, values));
  }
  if (SPLITTING.has(name)) {
    const parts = call(args);
    const marked = toItems(parts)!.map((part) => new Markup(toText(part)!));
    return parts instanceof Tuple ? new Tuple(marked) : marked;
  }
  if (!ESCAPING.has(name)) return call(args);
  const escaped = args.positional.map((each) => toText(each) === undefined ? each : escape(each));
  return new Markup(toText(call({ positional: escaped, named: NO_NAMED }))!);
}

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

/** The methods of lists that the sandbox allows. As in Jinja2, `clear` and `pop` are among them. */
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

/** Methods that the sandbox refuses because they change a list or dict. */
const REFUSED: Readonly<Record<string, ReadonlySet<string>>> = {
  list: new Set(["append", "extend", "insert", "remove", "reverse", "sort"]),
  dict: new Set(["clear", "pop", "popitem", "setdefault", "update"]),
};

/** Whether the sandbox refuses access to a method because it would change the value. */
function isRefused(typeName: string, name: string): boolean {
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
function findMethod(value: Value, name: string): Native | undefined {
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
function findField(value: Value, name: string): Value | undefined {
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
