/**
 * Gets attributes of items by a path, as filters do: `"function.name"`.
 *
 * @module
 */
import { getSubscript } from "../python/attributes.ts";
import { str } from "../python/repr.ts";
import { toText, Undefined, type Value } from "../python/values.ts";

export type Getter = (item: Value) => Value;

/** Splits a path into its parts; whole numbers are indices. */
function splitPath(path: Value): Value[] {
  const text = toText(path);
  if (text === undefined) return path === null ? [] : [path];
  return text.split(".").map((part) => /^\d+$/.test(part) ? Number(part) : part);
}

/** @param otherwise replaces undefined values. */
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

/** Gets several attributes as a list: their paths are separated by commas. */
export function makeMultiGetter(paths: Value, change: Getter): Getter {
  const text = toText(paths);
  const getters = (text === undefined ? [paths] : text.split(",")).map((path) => makeGetter(path));
  return (item) => getters.map((get) => change(get(item)));
}

/** Converts strings to lower case, and leaves other values as they are. */
export function ignoreCase(value: Value): Value {
  return toText(value) === undefined ? value : str(value).toLowerCase();
}

/** Gets the values by which to sort by an attribute. */
export function keyGetter(path: Value, isCaseSensitive: boolean): Getter {
  const get = makeGetter(path);
  return isCaseSensitive ? get : (item) => ignoreCase(get(item));
}
