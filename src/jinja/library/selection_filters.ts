/**
 * Filters that apply another filter or a test to each item of a collection.
 *
 * @module
 */
import { isTrue, iterate } from "../python/iterate.ts";
import { str } from "../python/repr.ts";
import { type Arguments, PyIterator, type Value } from "../python/values.ts";
import { raise } from "../template_error.ts";
import { type Getter, makeGetter } from "./attribute_getter.ts";

type Apply = (name: string, value: Value, args: Arguments) => Value;

/** A filter that takes any arguments. */
export type OpenFilter = (value: Value, args: Arguments) => Value;

/**
 * @param apply.filter applies a filter by its name.
 * @param apply.test applies a test by its name.
 */
export function selectionFilters(
  apply: { readonly filter: Apply; readonly test: Apply },
): Readonly<Record<string, OpenFilter>> {
  const select = (keeps: boolean, hasAttribute: boolean): OpenFilter => (values, args) =>
    mapLazily(values, () => {
      const get = hasAttribute ? readAttribute(args) : (item: Value) => item;
      const [name, ...rest] = args.positional.slice(hasAttribute ? 1 : 0);
      const test: Getter = name === undefined
        ? (item) => item
        : (item) => apply.test(str(name), item, { positional: rest, named: args.named });
      return (item) => isTrue(test(get(item))) === keeps ? item : undefined;
    });
  return {
    map: (values, args) => mapLazily(values, () => mapping(args, apply.filter)),
    select: select(true, false),
    reject: select(false, false),
    selectattr: select(true, true),
    rejectattr: select(false, true),
  };
}

/** Maps items with `prepare` as they are requested; items for which it gives nothing are left out. */
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

function mapping({ positional, named }: Arguments, filter: Apply): Getter {
  const attribute = named.get("attribute");
  if (positional.length === 0 && attribute !== undefined) {
    const other = [...named.keys()].find((name) => name !== "attribute" && name !== "default");
    if (other !== undefined) raise("FilterArgumentError", `Unexpected keyword argument '${other}'`);
    return makeGetter(attribute, named.get("default"));
  }
  const [name, ...rest] = positional;
  if (name === undefined) return raise("FilterArgumentError", "map requires a filter argument");
  return (item) => filter(str(name), item, { positional: rest, named });
}
