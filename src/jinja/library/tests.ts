/**
 * The tests of templates, such as `value is defined`.
 *
 * @module
 */
import { applyBinary } from "../python/arithmetic.ts";
import { isCallable } from "../python/call.ts";
import { areEqual, contains, isOrdered, isSame } from "../python/compare.ts";
import { Dict } from "../python/dict.ts";
import { getLength, tryIterate } from "../python/iterate.ts";
import { asNumber } from "../python/numbers.ts";
import { str } from "../python/repr.ts";
import { type Native, native } from "../python/signature.ts";
import { CLASSES } from "../python/characters.ts";
import {
  Bytes,
  Float,
  Markup,
  PyObject,
  Range,
  toItems,
  toText,
  Undefined,
  type Value,
} from "../python/values.ts";

const modulo = (value: Value, by: Value) => applyBinary("%", value, by);
const order = (operator: "<" | "<=" | ">" | ">=") =>
  native("a, b", (a: Value, b: Value) => isOrdered(a, operator, b));
const equal = native("a, b", areEqual);
const unequal = native("a, b", (a: Value, b: Value) => !areEqual(a, b));

/** All tests except those that look up filters and tests by name. */
export const VALUE_TESTS: Readonly<Record<string, Native>> = {
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
};

/** Whether a value has a length and items. */
function isSequence(value: Value): boolean {
  const hasItems = value instanceof Undefined || toItems(value) !== undefined ||
    toText(value) !== undefined ||
    value instanceof Dict || value instanceof Range || value instanceof Bytes;
  return hasItems && getLength(value) !== undefined;
}
