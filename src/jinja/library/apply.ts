/**
 * All filters and tests, by name.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { str } from "../python/repr.ts";
import { callNative, type Native, native } from "../python/signature.ts";
import type { Arguments, Value } from "../python/values.ts";
import { raise } from "../template_error.ts";
import { formatPercent } from "../python/percent_format.ts";
import { Dict } from "../python/dict.ts";
import { Markup, Tuple } from "../python/values.ts";
import { COLLECTION_FILTERS } from "./collection_filters.ts";
import { HTML_FILTERS } from "./html_filters.ts";
import { NUMBER_FILTERS } from "./number_filters.ts";
import { type OpenFilter, selectionFilters } from "./selection_filters.ts";
import { VALUE_TESTS } from "./tests.ts";
import { TEXT_FILTERS } from "./text_filters.ts";
import { URL_FILTERS } from "./url_filters.ts";

const FILTERS: Readonly<Record<string, Native>> = {
  ...COLLECTION_FILTERS,
  ...HTML_FILTERS,
  ...NUMBER_FILTERS,
  ...TEXT_FILTERS,
  ...URL_FILTERS,
};

const OPEN_FILTERS: Readonly<Record<string, OpenFilter>> = {
  ...selectionFilters({ filter: applyFilter, test: applyTest }),
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
};

const TESTS: Readonly<Record<string, Native>> = {
  ...VALUE_TESTS,
  filter: native("value", (name: Value) => isFilter(str(name))),
  test: native("value", (name: Value) => isTest(str(name))),
};

export function isFilter(name: string): boolean {
  return Object.hasOwn(FILTERS, name) || Object.hasOwn(OPEN_FILTERS, name);
}

export function isTest(name: string): boolean {
  return Object.hasOwn(TESTS, name);
}

/**
 * Applies `value|name(…)`.
 *
 * @throws {TemplateError}
 */
export function applyFilter(name: string, value: Value, args: Arguments): Value {
  charge(1);
  if (Object.hasOwn(OPEN_FILTERS, name)) return OPEN_FILTERS[name]!(value, args);
  if (!Object.hasOwn(FILTERS, name)) {
    return raise("TemplateRuntimeError", `No filter named '${name}' found.`);
  }
  return callNative(name, FILTERS[name]!, withValue(value, args));
}

/**
 * Applies `value is name(…)`.
 *
 * @throws {TemplateError}
 */
export function applyTest(name: string, value: Value, args: Arguments): Value {
  charge(1);
  if (!isTest(name)) return raise("TemplateRuntimeError", `No test named '${name}' found.`);
  return callNative(name, TESTS[name]!, withValue(value, args));
}

function withValue(value: Value, { positional, named }: Arguments): Arguments {
  return { positional: [value, ...positional], named };
}
