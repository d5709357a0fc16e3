/**
 * The items of an array, and constraints on them from several schemas that apply together.
 *
 * @module
 */
import { GrammarError } from "./grammar.ts";
import type { JsonPhrases } from "./json_text.ts";
import { anyOf, EMPTY_PHRASE, NEVER, type Phrase, sequence } from "./rules.ts";
import type { SchemaDocument, SchemaNode } from "./schema_document.ts";
import { listValues } from "./schema_facts.ts";

/** Constraints on an array from several schemas that apply together. */
interface ArrayFacts {
  readonly prefix: readonly (readonly SchemaNode[])[];
  /** Schemas of further items; `undefined` if there may be none. */
  readonly rest: readonly SchemaNode[] | undefined;
  readonly min: number;
  readonly max: number;
  /** Path of `uniqueItems`, if the array may have two items. */
  readonly uniqueAt: string | undefined;
}

/** Largest `minItems` or `maxItems` that can be enforced. */
const MAX_COUNTED = 2_000;

export function arrayFacts(nodes: readonly SchemaNode[], document: SchemaDocument): ArrayFacts {
  const lists = nodes.map((node) => readItems(node, document));
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const at = (index: number) => lists.flatMap(({ prefix, rest }) => prefix[index] ?? rest ?? []);
  const prefix = Array.from({ length }, (_, index) => at(index));
  const rest = at(Infinity);
  const mins = listValues<number>(nodes, "minItems");
  const maxes = listValues<number>(nodes, "maxItems");
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
  const unique = listValues<boolean>(nodes, "uniqueItems").find(({ value }) => value);
  return {
    prefix: prefix.slice(0, Math.min(max, length)),
    rest: isNever(rest) ? undefined : rest,
    min,
    max,
    uniqueAt: max > 1 ? unique?.param : undefined,
  };
}

/**
 * Matches an array with its brackets.
 *
 * @param parts `getValue` matches values for which all given schemas hold.
 * @throws {GrammarError} when items must be unique.
 */
export function itemsPhrase(
  { prefix, rest, min, max, uniqueAt }: ArrayFacts,
  { json, getValue }: {
    readonly json: JsonPhrases;
    readonly getValue: (schemas: readonly SchemaNode[]) => Phrase;
  },
): Phrase {
  if (uniqueAt !== undefined) throw new GrammarError("uniqueItems cannot be enforced", uniqueAt);
  const { openArray, closeArray, comma } = json;
  if (min > max) return NEVER;
  const item = rest && getValue(rest);
  const more = (least: number, most: number): Phrase =>
    item === undefined || most <= 0
      ? (least > 0 ? NEVER : EMPTY_PHRASE)
      : { kind: "repeat", item: sequence(comma, item), min: Math.max(0, least), max: most };
  const orEmpty = (phrase: Phrase, index: number): Phrase =>
    index < min ? phrase : anyOf([phrase, EMPTY_PHRASE]);

  let items = more(min - prefix.length, max - prefix.length);
  if (prefix.length === 0) {
    items = item === undefined || max === 0
      ? (min > 0 ? NEVER : EMPTY_PHRASE)
      : orEmpty(sequence(item, more(min - 1, max - 1)), 0);
  }
  for (let i = prefix.length - 1; i >= 0; i--) {
    const value = getValue(prefix[i]!);
    items = orEmpty(sequence(...(i > 0 ? [comma] : []), value, items), i);
  }
  return sequence(openArray, items, closeArray);
}

function readItems(node: SchemaNode, document: SchemaDocument) {
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
