/**
 * Equality, order and membership.
 *
 * @module
 */
import { charge, chargeText, descend } from "../meter.ts";
import {
  Bytes,
  getTypeName,
  raise,
  Range,
  toItems,
  toText,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { Dict, DictView, iterate, toKey, tryIterate } from "./collections.ts";
import { asInt, asNumber } from "./numbers.ts";
import { compareTexts } from "./text.ts";

/** Python's `a == b`. */
export function areEqual(a: Value, b: Value): boolean {
  if (typeof a === "string" && typeof b === "string") return areEqualTexts(a, b);
  if (a === b) return true;
  if (a === null || b === null) return false;
  const [numberA, numberB] = [asNumber(a), asNumber(b)];
  if (numberA !== undefined || numberB !== undefined) return areEqualNumbers(a, b);
  const [textA, textB] = [toText(a), toText(b)];
  if (textA !== undefined || textB !== undefined) {
    return textA !== undefined && textB !== undefined && areEqualTexts(textA, textB);
  }
  if (Array.isArray(a) || a instanceof Tuple) {
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const [itemsA, itemsB] = [toItems(a)!, toItems(b)];
    return itemsB !== undefined && areEqualItems(itemsA, itemsB);
  }
  if (a instanceof Dict && b instanceof Dict) return areEqualDicts(a, b);
  if (a instanceof DictView && b instanceof DictView) return areEqualViews(a, b);
  if (a instanceof Range && b instanceof Range) {
    return areEqualItems([...iterate(a)], [...iterate(b)]);
  }
  if (a instanceof Bytes && b instanceof Bytes) return a.bytes.join() === b.bytes.join();
  return a instanceof Undefined && b instanceof Undefined;
}

function areEqualTexts(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  if (a.length > 64) chargeText(a.length);
  return a === b;
}

function areEqualNumbers(a: Value, b: Value): boolean {
  const [intA, intB] = [asInt(a), asInt(b)];
  // JavaScript's loose equality compares a number with a bigint by value.
  const valueA = intA ?? asNumber(a);
  const valueB = intB ?? asNumber(b);
  // deno-lint-ignore eqeqeq
  return valueA !== undefined && valueB !== undefined && valueA == valueB;
}

function areEqualItems(a: readonly Value[], b: readonly Value[]): boolean {
  if (a.length !== b.length) return false;
  charge(a.length);
  return descend(() => a.every((item, index) => areEqual(item, b[index]!)));
}

function areEqualDicts(a: Dict, b: Dict): boolean {
  if (a.size !== b.size) return false;
  charge(a.size);
  return descend(() => {
    for (const [key, value] of a.entries()) {
      const other = b.get(key);
      if (other === undefined || !areEqual(value, other)) return false;
    }
    return true;
  });
}

function areEqualViews(a: DictView, b: DictView): boolean {
  if (a.what === "values" || b.what === "values") return false;
  const [itemsA, itemsB] = [[...iterate(a)], [...iterate(b)]];
  return itemsA.length === itemsB.length &&
    itemsA.every((item) => itemsB.some((other) => areEqual(item, other)));
}

type Order = "<" | "<=" | ">" | ">=";

/**
 * Python's `a < b` and the other orders.
 *
 * @throws {TemplateError} when the types have no order.
 */
export function isOrdered(a: Value, operator: Order, b: Value): boolean {
  const [numberA, numberB] = [asNumber(a), asNumber(b)];
  if (numberA !== undefined && numberB !== undefined) {
    const [valueA, valueB] = [asInt(a) ?? numberA, asInt(b) ?? numberB];
    if (operator === "<") return valueA < valueB;
    if (operator === "<=") return valueA <= valueB;
    return operator === ">" ? valueA > valueB : valueA >= valueB;
  }
  const order = compareOthers(a, operator, b);
  if (operator === "<") return order < 0;
  if (operator === "<=") return order <= 0;
  return operator === ">" ? order > 0 : order >= 0;
}

function compareOthers(a: Value, operator: Order, b: Value): number {
  const [textA, textB] = [toText(a), toText(b)];
  if (textA !== undefined && textB !== undefined) return compareTexts(textA, textB);
  const [itemsA, itemsB] = [toItems(a), toItems(b)];
  if (itemsA !== undefined && itemsB !== undefined && Array.isArray(a) === Array.isArray(b)) {
    return descend(() => compareItems(itemsA, operator, itemsB));
  }
  for (const value of [a, b]) if (value instanceof Undefined) value.fail();
  return raise(
    "TypeError",
    `'${operator}' not supported between instances of '${getTypeName(a)}' and '${getTypeName(b)}'`,
  );
}

function compareItems(a: readonly Value[], operator: Order, b: readonly Value[]): number {
  charge(Math.min(a.length, b.length));
  for (const [index, item] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    if (areEqual(item, other)) continue;
    const isLess = isOrdered(item, operator, other);
    return operator.startsWith("<") === isLess ? -1 : 1;
  }
  return a.length - b.length;
}

/** Python's `sorted(values, key=…)`: stable, and descending on request. */
export function sortBy<T>(
  values: readonly T[],
  getKey: (value: T) => Value,
  isReverse = false,
): T[] {
  const keyed = values.map((value) => ({ value, key: getKey(value) }));
  const compare = (a: Value, b: Value) => {
    charge(4);
    return isOrdered(a, "<", b) ? -1 : isOrdered(b, "<", a) ? 1 : 0;
  };
  keyed.sort((a, b) => isReverse ? compare(b.key, a.key) : compare(a.key, b.key));
  return keyed.map(({ value }) => value);
}

/** Python's `item in collection`. */
export function contains(collection: Value, item: Value): boolean {
  const text = toText(collection);
  if (text !== undefined) return containsText(text, item);
  if (collection instanceof Dict) return collection.has(item);
  if (collection instanceof DictView && collection.what === "keys") {
    return collection.dict.has(item);
  }
  if (collection instanceof Undefined) return false;
  if (tryIterate(collection) === undefined) {
    raise("TypeError", `argument of type '${getTypeName(collection)}' is not iterable`);
  }
  for (const each of iterate(collection)) if (areEqual(each, item)) return true;
  return false;
}

function containsText(text: string, item: Value): boolean {
  const wanted = toText(item);
  if (wanted === undefined) {
    const seen = getTypeName(item);
    return raise("TypeError", `'in <string>' requires string as left operand, not ${seen}`);
  }
  chargeText(text.length);
  return text.includes(wanted);
}

/** Python's `a is b`. */
export const isSame: (a: Value, b: Value) => boolean = Object.is;

/** A set of values, which are compared as Python does. */
export class ValueSet {
  readonly #keys = new Set<unknown>();

  /**
   * Adds a value.
   *
   * @returns whether it is new.
   */
  add(value: Value): boolean {
    const key = toKey(value);
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    return true;
  }
}
