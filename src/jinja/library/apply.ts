/**
 * All filters and tests, by name.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { str } from "../python/repr.ts";
import { callNative, isCallable, type Native, native } from "../python/call.ts";
import {
  type Arguments,
  Bytes,
  Float,
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
} from "../python/values.ts";
import { formatPercent } from "../python/string_format.ts";
import { Dict, getLength, isTrue, iterate, toKey, tryIterate } from "../python/collections.ts";
import { COLLECTION_FILTERS, type Getter, makeGetter } from "./collection_filters.ts";
import { HTML_FILTERS, NUMBER_FILTERS } from "./number_and_html_filters.ts";
import { TEXT_FILTERS } from "./text_filters.ts";
import { applyBinary } from "../python/arithmetic.ts";
import { areEqual, contains, isOrdered, isSame } from "../python/compare.ts";
import { asNumber } from "../python/numbers.ts";
import { CLASSES } from "../python/string_operations.ts";

const FILTERS: Readonly<Record<string, Native>> = {
  ...COLLECTION_FILTERS,
  ...HTML_FILTERS,
  ...NUMBER_FILTERS,
  ...TEXT_FILTERS,
};

/** A filter that takes any arguments. */
type OpenFilter = (value: Value, args: Arguments) => Value;

const OPEN_FILTERS: Readonly<Record<string, OpenFilter>> = {
  format: (value, { positional, named }) => {
    if (positional.length > 0 && named.size > 0) {
      raise(
        "FilterArgumentError",
        "can't handle positional and keyword arguments at the same time",
      );
    }
    const values = named.size > 0 ? new Dict(named.entries()) : new Tuple(positional);
    return formatPercent(value instanceof Markup ? value : str(value), values);
  },
  map: (values, args) => mapLazily(values, () => mapping(args)),
  reject: select(false, false),
  rejectattr: select(false, true),
  select: select(true, false),
  selectattr: select(true, true),
};

const modulo = (value: Value, by: Value) => applyBinary("%", value, by);
const order = (operator: "<" | "<=" | ">" | ">=") =>
  native("a, b", (a: Value, b: Value) => isOrdered(a, operator, b));
const equal = native("a, b", areEqual);
const unequal = native("a, b", (a: Value, b: Value) => !areEqual(a, b));

const TESTS: Readonly<Record<string, Native>> = {
  odd: native("value", (value: Value) => areEqual(modulo(value, 2), 1)),
  even: native("value", (value: Value) => areEqual(modulo(value, 2), 0)),
  divisibleby: native("value, num", (value: Value, by: Value) => areEqual(modulo(value, by), 0)),
  defined: native("value", (value: Value) => !(value instanceof Undefined)),
  undefined: native("value", (value: Value) => value instanceof Undefined),
  none: native("value", (value: Value) => value === null),
  boolean: native("value", (value: Value) => typeof value === "boolean"),
  false: native("value", (value: Value) => value === false),
  true: native("value", (value: Value) => value === true),
  integer: native(
    "value",
    (value: Value) => typeof value === "number" || typeof value === "bigint",
  ),
  float: native("value", (value: Value) => value instanceof Float),
  lower: native("value", (value: Value) => CLASSES["islower"]!(str(value))),
  upper: native("value", (value: Value) => CLASSES["isupper"]!(str(value))),
  string: native("value", (value: Value) => toText(value) !== undefined),
  mapping: native("value", (value: Value) => value instanceof Dict),
  number: native("value", (value: Value) => asNumber(value) !== undefined),
  sequence: native("value", isSequence),
  iterable: native(
    "value",
    (value: Value) =>
      tryIterate(value) !== undefined || (value instanceof PyObject && "iterations" in value),
  ),
  callable: native("value", (value: Value) => isCallable(value) || value instanceof Undefined),
  sameas: native("value, other", isSame),
  escaped: native("value", (value: Value) => value instanceof Markup),
  in: native("value, seq", (value: Value, values: Value) => contains(values, value)),
  "==": equal,
  eq: equal,
  equalto: equal,
  "!=": unequal,
  ne: unequal,
  ">": order(">"),
  gt: order(">"),
  greaterthan: order(">"),
  ">=": order(">="),
  ge: order(">="),
  "<": order("<"),
  lt: order("<"),
  lessthan: order("<"),
  "<=": order("<="),
  le: order("<="),
  filter: native("value", (name: Value) => isFilter(toName(name))),
  test: native("value", (name: Value) => isTest(toName(name))),
};

export function isFilter(name: string): boolean {
  return Object.hasOwn(FILTERS, name) || Object.hasOwn(OPEN_FILTERS, name);
}

export function isTest(name: string): boolean {
  return Object.hasOwn(TESTS, name);
}

/** Applies `value|name(…)`. */
export function applyFilter(name: string, value: Value, args: Arguments): Value {
  charge(1);
  if (Object.hasOwn(OPEN_FILTERS, name)) return OPEN_FILTERS[name]!(value, args);
  if (!Object.hasOwn(FILTERS, name)) {
    return raise("TemplateRuntimeError", `No filter named '${name}' found.`);
  }
  return callNative(name, FILTERS[name]!, withValue(value, args));
}

/** Applies `value is name(…)`. */
export function applyTest(name: string, value: Value, args: Arguments): Value {
  charge(1);
  if (!isTest(name)) return raise("TemplateRuntimeError", `No test named '${name}' found.`);
  return callNative(name, TESTS[name]!, withValue(value, args));
}

function withValue(value: Value, { positional, named }: Arguments): Arguments {
  return { positional: [value, ...positional], named };
}

/** The text of a str; empty for other values. @throws {TemplateError} when the value could not be a key of a dict. */
function toName(value: Value): string {
  toKey(value);
  return toText(value) ?? "";
}

/** Makes a filter that tests each item, or an attribute of it, and keeps the items for which the test gives `keeps`. */
function select(keeps: boolean, hasAttribute: boolean): OpenFilter {
  return (values, args) =>
    mapLazily(values, () => {
      const get = hasAttribute ? readAttribute(args) : (item: Value) => item;
      const [name, ...rest] = args.positional.slice(hasAttribute ? 1 : 0);
      const test: Getter = name === undefined
        ? (item) => item
        : (item) => applyTest(str(name), item, { positional: rest, named: args.named });
      return (item) => isTrue(test(get(item))) === keeps ? item : undefined;
    });
}

/**
 * Maps items, as they are requested, with the function that `prepare` returns. Items mapped to `undefined` are
 * left out.
 */
function mapLazily(
  values: Value,
  prepare: () => (item: Value) => Value | undefined,
): PyIterator {
  return new PyIterator(function* () {
    if (!isTrue(values)) return;
    const change = prepare();
    for (const item of iterate(values)) {
      const changed = change(item);
      if (changed !== undefined) yield changed;
    }
  }());
}

function readAttribute({ positional }: Arguments): Getter {
  if (positional.length === 0) {
    raise("FilterArgumentError", "Missing parameter for attribute name");
  }
  return makeGetter(positional[0]!);
}

function mapping({ positional, named }: Arguments): Getter {
  const attribute = named.get("attribute");
  if (positional.length === 0 && attribute !== undefined) {
    const other = [...named.keys()].find((name) => name !== "attribute" && name !== "default");
    if (other !== undefined) raise("FilterArgumentError", `Unexpected keyword argument '${other}'`);
    return makeGetter(attribute, named.get("default"));
  }
  const [name, ...rest] = positional;
  if (name === undefined) return raise("FilterArgumentError", "map requires a filter argument");
  return (item) => applyFilter(str(name), item, { positional: rest, named });
}

/** Whether a value has a length and items. */
function isSequence(value: Value): boolean {
  const hasItems = value instanceof Undefined || toItems(value) !== undefined ||
    toText(value) !== undefined ||
    value instanceof Dict || value instanceof Range || value instanceof Bytes;
  return hasItems && getLength(value) !== undefined;
}
