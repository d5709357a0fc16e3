/**
 * The filters for lists and dicts.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { applyBinary, requireFew } from "../python/arithmetic.ts";
import { findAttribute, getSubscript } from "../python/attributes.ts";
import { areEqual, isOrdered, sortBy, ValueSet } from "../python/compare.ts";
import {
  Dict,
  getItem,
  isTrue,
  iterate,
  requireLength,
  toList,
  tryReverse,
} from "../python/collections.ts";
import { requireIndex } from "../python/numbers.ts";
import { escape, isAutoescaping, str } from "../python/repr.ts";
import { type Native, native } from "../python/call.ts";
import { splitChars } from "../python/text.ts";
import {
  getTypeName,
  GroupTuple,
  Markup,
  PyIterator,
  raise,
  toText,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from "../python/values.ts";

const identity = (value: Value) => value;

export const COLLECTION_FILTERS: Readonly<Record<string, Native>> = {
  attr: native(
    "obj, name",
    (value: Value, name: Value) => {
      const text = toText(name) ??
        raise("TypeError", `attribute name must be string, not '${getTypeName(name)}'`);
      return valueOr(findAttribute(value, text), () => new Undefined(`no attribute '${text}'`));
    },
  ),
  batch: native(
    "value, linecount, fill_with",
    (value: Value, count: Value, filler: Value = null) =>
      generate(batches(value, requireIndex(count), filler)),
  ),
  count: native("value", requireLength),
  dictsort: native(
    "value, case_sensitive, by, reverse",
    (value: Value, isCaseSensitive: Value = false, by: Value = "key", isReverse: Value = false) => {
      if (by !== "key" && by !== "value") {
        raise("FilterArgumentError", 'You can only sort by either "key" or "value"');
      }
      if (!(value instanceof Dict)) {
        return raise("AttributeError", `'${getTypeName(value)}' object has no attribute 'items'`);
      }
      const change = isTrue(isCaseSensitive) ? identity : ignoreCase;
      const pairs = Array.from(value.entries(), ([key, each]) => new Tuple([key, each]));
      return sortBy(pairs, ({ items }) => change(items[by === "key" ? 0 : 1]!), isTrue(isReverse));
    },
  ),
  first: native("seq", (values: Value) => {
    const { value, done } = iterate(values).next();
    return done === true ? new Undefined("No first item, sequence was empty.") : value;
  }),
  groupby: native(
    "value, attribute, default, case_sensitive",
    (values: Value, attribute: Value, otherwise: Value = null, isCaseSensitive: Value = false) => {
      const get = makeGetter(attribute, otherwise);
      return groupBy(values, get, isTrue(isCaseSensitive) ? identity : ignoreCase);
    },
  ),
  items: native("value", (value: Value) => generate(iterateEntries(value))),
  join: native("value, d, attribute", joinValues),
  last: native("seq", (values: Value) => {
    if (toText(values) !== undefined) {
      return getItem(values, -1) ?? new Undefined("No last item, sequence was empty.");
    }
    if (values instanceof Undefined) return new Undefined("No last item, sequence was empty.");
    const reversed = tryReverse(values) ??
      raise("TypeError", `'${getTypeName(values)}' object is not reversible`);
    const { value, done } = reversed.values.next();
    return done === true ? new Undefined("No last item, sequence was empty.") : value;
  }),
  length: native("value", requireLength),
  list: native("value", toList),
  max: native("value, case_sensitive, attribute", extreme(">", "max")),
  min: native("value, case_sensitive, attribute", extreme("<", "min")),
  random: native("seq", (values: Value) => {
    const length = requireLength(values);
    const chosen = getItem(values, Math.floor(Math.random() * length));
    return valueOr(chosen, () => new Undefined("No random item, sequence was empty."));
  }),
  reverse: native("value", (value: Value) => {
    const text = toText(value);
    if (text !== undefined) {
      const reversed = splitChars(text).reverse().join("");
      return value instanceof Markup ? new Markup(reversed) : reversed;
    }
    return tryReverse(value) ?? toList(value).reverse();
  }),
  slice: native(
    "value, slices, fill_with",
    (value: Value, slices: Value, filler: Value = null) =>
      generate(columns(toList(value), requireIndex(slices), filler)),
  ),
  sort: native(
    "value, reverse, case_sensitive, attribute",
    (
      values: Value,
      isReverse: Value = false,
      isCaseSensitive: Value = false,
      attribute: Value = null,
    ) =>
      sortBy(
        toList(values),
        makeMultiGetter(attribute, isTrue(isCaseSensitive) ? identity : ignoreCase),
        isTrue(isReverse),
      ),
  ),
  sum: native(
    "iterable, attribute, start",
    (values: Value, attribute: Value = null, start: Value = 0) => {
      const get = makeGetter(attribute);
      if (toText(start) !== undefined) raise("TypeError", "sum() can't sum strings");
      return Iterator.from(iterate(values)).reduce(
        (sum, each) => applyBinary("+", sum, get(each)),
        start,
      );
    },
  ),
  unique: native(
    "value, case_sensitive, attribute",
    (values: Value, isCaseSensitive: Value = false, attribute: Value = null) =>
      generate(iterateUnique(values, keyGetter(attribute, isTrue(isCaseSensitive)))),
  ),
};

function generate(values: Generator<Value>): PyIterator {
  return new PyIterator(values);
}

function* iterateEntries(value: Value): Generator<Value> {
  if (value instanceof Undefined) return;
  if (!(value instanceof Dict)) raise("TypeError", "Can only get item pairs from a mapping.");
  for (const [key, each] of value.entries()) yield new Tuple([key, each]);
}

function* batches(values: Value, size: number, filler: Value): Generator<Value> {
  let batch: Value[] = [];
  for (const value of iterate(values)) {
    if (batch.length === size) {
      yield batch;
      batch = [];
    }
    batch.push(value);
  }
  if (batch.length > 0) yield padded(batch, filler === null ? 0 : size - batch.length, filler);
}

function padded(values: readonly Value[], missing: number, filler: Value): Value[] {
  requireFew(Math.max(0, missing));
  return [...values, ...new Array<Value>(Math.max(0, missing)).fill(filler)];
}

function* columns(values: readonly Value[], count: number, filler: Value): Generator<Value> {
  if (count === 0) raise("ZeroDivisionError", "integer division or modulo by zero");
  const size = Math.floor(values.length / count);
  const numLonger = values.length % count;
  for (let column = 0, start = 0; column < count; column++) {
    charge(4);
    const end = start + size + (column < numLonger ? 1 : 0);
    yield padded(values.slice(start, end), filler !== null && column >= numLonger ? 1 : 0, filler);
    start = end;
  }
}

function* iterateUnique(values: Value, getKey: (value: Value) => Value): Generator<Value> {
  const seen = new ValueSet();
  for (const value of iterate(values)) if (seen.add(getKey(value))) yield value;
}

function groupBy(
  values: Value,
  get: (value: Value) => Value,
  change: (value: Value) => Value,
): Value[] {
  const getKey = (value: Value) => change(get(value));
  const groups: Value[][] = [];
  let last: Value | undefined;
  for (const value of sortBy(toList(values), getKey)) {
    const key = getKey(value);
    if (last === undefined || !areEqual(key, last)) groups.push([]);
    groups.at(-1)!.push(value);
    last = key;
  }
  return groups.map((group) => new GroupTuple([get(group[0]!), group]));
}

function extreme(operator: "<" | ">", name: string) {
  return (values: Value, isCaseSensitive: Value = false, attribute: Value = null): Value => {
    const getKey = keyGetter(attribute, isTrue(isCaseSensitive));
    let best: { value: Value; key: Value } | undefined;
    for (const value of iterate(values)) {
      const key = getKey(value);
      if (best === undefined || isOrdered(key, operator, best.key)) best = { value, key };
    }
    return valueOr(
      best?.value,
      () => new Undefined(`No aggregated item, sequence was empty (${name}).`),
    );
  };
}

function joinValues(values: Value, separator: Value = "", attribute: Value = null): Value {
  const get = makeGetter(attribute);
  const all = Array.from(iterate(values), get);
  const isSafe = isAutoescaping() && [separator, ...all].some((each) => each instanceof Markup);
  const texts = all.map(isSafe ? escape : str);
  const by = isSafe ? escape(separator) : str(separator);
  let text = "";
  texts.forEach((each, index) => {
    text = applyBinary("+", text, index === 0 ? each : by + each) as string;
  });
  return isSafe ? new Markup(text) : text;
}

export type Getter = (item: Value) => Value;

/** Splits a path into its parts; whole numbers are indices. */
function splitPath(path: Value): Value[] {
  const text = toText(path);
  if (text === undefined) return path === null ? [] : [path];
  return text.split(".").map((part) => /^\d+$/.test(part) ? Number(part) : part);
}

/** Makes a function that gets the value at a path such as `a.0.b`. @param otherwise replaces undefined values. */
export function makeGetter(path: Value, otherwise: Value = null): Getter {
  const parts = splitPath(path);
  return (item) => {
    let value = item;
    for (const part of parts) {
      value = getSubscript(value, part);
      if (otherwise !== null && value instanceof Undefined) value = otherwise;
    }
    return value;
  };
}

/** Makes a function that gets several attributes as a list, each changed by `change`. Commas separate their paths. */
function makeMultiGetter(paths: Value, change: Getter): Getter {
  const text = toText(paths);
  const getters = (text === undefined ? [paths] : text.split(",")).map((path) => makeGetter(path));
  return (item) => getters.map((get) => change(get(item)));
}

/** Converts strings to lower case, and leaves other values unchanged. */
function ignoreCase(value: Value): Value {
  return toText(value) === undefined ? value : str(value).toLowerCase();
}

/** Makes a function that gets the attribute by which items are compared. */
function keyGetter(path: Value, isCaseSensitive: boolean): Getter {
  const get = makeGetter(path);
  return isCaseSensitive ? get : (item) => ignoreCase(get(item));
}
