/**
 * Constraints of several schemas, holding at once, on an array's items.
 *
 * @module
 */
import { GrammarError } from "./grammar_error.ts";
import type { SchemaDocument, SchemaNode } from "./schema_document.ts";
import { valuesOf } from "./schema_facts.ts";

/** Constraints of several schemas, holding at once, on an array. */
interface ArrayFacts {
  readonly prefix: readonly (readonly SchemaNode[])[];
  /** Of the items after these; `undefined` if there may be none. */
  readonly rest: readonly SchemaNode[] | undefined;
  readonly min: number;
  readonly max: number;
}

/** Largest `minItems` or `maxItems` that can be enforced. */
const MAX_COUNTED = 2_000;

export function arrayFacts(nodes: readonly SchemaNode[], document: SchemaDocument): ArrayFacts {
  const lists = nodes.map((node) => itemsOf(node, document));
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const at = (index: number) => lists.flatMap(({ prefix, rest }) => prefix[index] ?? rest ?? []);
  const prefix = Array.from({ length }, (_, index) => at(index));
  const rest = at(Infinity);
  const mins = valuesOf<number>(nodes, "minItems");
  const maxes = valuesOf<number>(nodes, "maxItems");
  const min = Math.max(0, ...mins.map(({ value }) => value));
  let max = Math.min(Infinity, ...maxes.map(({ value }) => value));
  for (const { value, param } of [...mins, ...maxes]) {
    if (value > MAX_COUNTED) {
      throw new GrammarError(`more than ${MAX_COUNTED} items cannot be counted`, param);
    }
  }
  const isNever = (schemas: readonly SchemaNode[]) =>
    schemas.some(({ keywords }) => keywords === false);
  const firstNever = prefix.findIndex(isNever);
  if (firstNever >= 0) max = Math.min(max, firstNever);
  else if (isNever(rest)) max = Math.min(max, length);
  for (const { value, param } of valuesOf<boolean>(nodes, "uniqueItems")) {
    if (value && max > 1) throw new GrammarError("uniqueItems cannot be enforced", param);
  }
  return {
    prefix: prefix.slice(0, Math.min(max, length)),
    rest: isNever(rest) ? undefined : rest,
    min,
    max,
  };
}

function itemsOf(node: SchemaNode, document: SchemaDocument) {
  const { keywords, param } = node;
  if (keywords === false) return { prefix: [], rest: undefined };
  const { items, prefixItems, additionalItems } = keywords;
  const list = (prefixItems ?? (Array.isArray(items) ? items : [])) as unknown[];
  const name = prefixItems === undefined ? "items" : "prefixItems";
  const after = Array.isArray(items) ? additionalItems : items;
  const afterName = Array.isArray(items) ? "additionalItems" : "items";
  return {
    prefix: list.map((each, i) => document.node(each, `${param}.${name}[${i}]`)),
    rest: after === undefined ? undefined : document.node(after, `${param}.${afterName}`),
  };
}
