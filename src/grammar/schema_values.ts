/**
 * Whether a value that a schema lists is valid for other schemas.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { orImpossible } from "./grammar_error.ts";
import { inside } from "./json_text.ts";
import { arrayFacts } from "./schema_arrays.ts";
import type { SchemaDocument, SchemaNode } from "./schema_document.ts";
import {
  canonical,
  type Demands,
  gatherDemands,
  listedValues,
  typeOfValue,
  validTypesOf,
  valuesOf,
} from "./schema_facts.ts";
import { objectFacts } from "./schema_objects.ts";
import type { SchemaScalars } from "./schema_scalars.ts";

/** What this needs of the grammar under construction. */
export interface ValueParts {
  readonly document: SchemaDocument;
  readonly expressions: Expressions;
  readonly scalars: SchemaScalars;
}

/**
 * Whether all schemas hold for a value.
 *
 * @throws {GrammarError} when that cannot be told of one of their keywords, or takes too long.
 */
export function holdsFor(
  value: unknown,
  schemas: readonly SchemaNode[],
  parts: ValueParts,
): boolean {
  return meets(value, gatherDemands(parts.document, schemas), parts);
}

/** The same for what schemas demand. @throws as that. */
export function meets(
  value: unknown,
  { nodes, choices }: Demands,
  parts: ValueParts,
): boolean {
  parts.expressions.checkClock();
  if (nodes === undefined) return false;
  const [choice, ...others] = choices;
  if (choice === undefined) return fits(value, nodes, parts);
  const options = choice.options.filter((option) => holdsFor(value, [option], parts));
  if (options.length === 0 || (choice.isExclusive && options.length > 1)) return false;
  // What unevaluatedProperties is about depends on all options that hold.
  const more = gatherDemands(parts.document, options);
  return meets(value, {
    nodes: [...new Set([...nodes, ...more.nodes!])],
    choices: [...others, ...more.choices],
  }, parts);
}

/** @param nodes without choices. */
function fits(value: unknown, nodes: readonly SchemaNode[], parts: ValueParts): boolean {
  const type = typeOfValue(value);
  const { types, isInteger } = validTypesOf(nodes);
  if (!types.has(type)) return false;
  const own = canonical(value);
  if (nodes.some((node) => listedIn(node)?.has(own) === false)) return false;
  return orImpossible(() => {
    const { expressions, scalars } = parts;
    switch (type) {
      case "number":
        return expressions.matches(scalars.number(nodes, isInteger), own);
      case "string":
        return expressions.matches(scalars.canonicalInside(nodes), inside(value as string));
      case "array":
        return fitsArray(value as unknown[], nodes, parts);
      case "object":
        return fitsObject(value as Record<string, unknown>, nodes, parts);
      default:
        return true;
    }
  }, () => false);
}

/** By the schema: large lists are asked for each of their values. */
const lists = new WeakMap<SchemaNode, ReadonlySet<string> | undefined>();

function listedIn(node: SchemaNode): ReadonlySet<string> | undefined {
  if (!lists.has(node)) {
    const values = listedValues([node]);
    lists.set(node, values && new Set(values.map(canonical)));
  }
  return lists.get(node);
}

function fitsArray(
  items: readonly unknown[],
  nodes: readonly SchemaNode[],
  parts: ValueParts,
): boolean {
  const { prefix, rest, min, max } = arrayFacts(nodes, parts.document);
  if (items.length < min || items.length > max) return false;
  const isUnique = valuesOf<boolean>(nodes, "uniqueItems").some((each) => each.value);
  if (isUnique && new Set(items.map(canonical)).size < items.length) return false;
  return items.every((item, index) => {
    const schemas = prefix[index] ?? rest;
    return schemas !== undefined && holdsFor(item, schemas, parts);
  });
}

function fitsObject(
  value: Readonly<Record<string, unknown>>,
  nodes: readonly SchemaNode[],
  parts: ValueParts,
): boolean {
  const { members, others, min, max } = objectFacts(nodes, parts);
  const names = Object.keys(value);
  if (names.length < min || names.length > max) return false;
  if (members.some(({ name, isRequired }) => isRequired && !Object.hasOwn(value, name))) {
    return false;
  }
  const named = new Map(members.map(({ name, schemas }) => [name, schemas]));
  return names.every((name) => {
    const schemas = named.get(name) ??
      others.find((each) => parts.expressions.matches(each.names, inside(name)))?.schemas;
    return schemas !== undefined && holdsFor(value[name], schemas, parts);
  });
}
