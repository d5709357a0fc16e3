/**
 * Python's `value.name` and `value[key]`, with the restrictions of Jinja2's sandbox.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import {
  type Arguments,
  Callable,
  getTypeName,
  isRaised,
  Markup,
  NO_NAMED,
  PyObject,
  toItems,
  toText,
  Tuple,
  Undefined,
  UNSAFE_NAMES,
  type Value,
  valueOr,
} from "./values.ts";
import { escape, repr, str } from "./repr.ts";
import { type FieldAccess, formatBraces } from "./brace_format.ts";
import { Dict } from "./dict.ts";
import { getItem, iterate } from "./collections.ts";
import { findField, findMethod, isRefused } from "./methods.ts";
import { callNative } from "./call.ts";
import { joinTexts, STRING_METHODS } from "./string_methods.ts";

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

/** What the fields of `str.format` may access. */
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
const PIECES = new Set(["split", "rsplit", "splitlines", "partition", "rpartition"]);

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
  if (PIECES.has(name)) {
    const parts = call(args);
    const marked = toItems(parts)!.map((part) => new Markup(toText(part)!));
    return parts instanceof Tuple ? new Tuple(marked) : marked;
  }
  if (!ESCAPING.has(name)) return call(args);
  const escaped = args.positional.map((each) => toText(each) === undefined ? each : escape(each));
  return new Markup(toText(call({ positional: escaped, named: NO_NAMED }))!);
}
