/**
 * Decides whether a value generated for one schema can be valid for another, which `oneOf` forbids.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { orImpossible } from "./grammar.ts";
import type { JsonType, SchemaDocument, SchemaNode } from "./schema_document.ts";
import {
  findTypes,
  findValidTypes,
  gatherDemands,
  listedByText,
  typeOfValue,
} from "./schema_facts.ts";
import { arrayFacts } from "./schema_arrays.ts";
import { type Member, objectFacts } from "./schema_objects.ts";
import type { SchemaScalars } from "./schema_scalars.ts";
import type { SchemaValues } from "./schema_values.ts";

/** The parts of the grammar under construction that comparisons need. */
interface DisjointParts {
  readonly document: SchemaDocument;
  readonly expressions: Expressions;
  readonly scalars: SchemaScalars;
  readonly values: SchemaValues;
}

/** Depth to which members and items are compared. */
const MAX_DEPTH = 4;

/** Cost of comparing two schemas, in visits of expressions. */
const VISITS_OF_COMPARISON = 100;

type Schemas = readonly SchemaNode[];

/** Whether no value generated for `made` is valid for `other`; false if that cannot be decided. */
export function excludes(
  made: Schemas,
  other: Schemas,
  parts: DisjointParts,
  depth = 0,
): boolean {
  // Choices within the schemas only make both narrower.
  const { nodes: a, choices } = gatherDemands(parts.document, made);
  const { nodes: b, choices: otherChoices } = gatherDemands(parts.document, other);
  const isOpen = choices.length + otherChoices.length > 0;
  if (a === undefined || b === undefined) return true;
  if (depth > MAX_DEPTH) return false;
  parts.expressions.visit(VISITS_OF_COMPARISON);
  const listed = listedByText(a);
  const otherListed = listedByText(b);
  const { types } = findTypes(a);
  if (listed !== undefined || otherListed !== undefined) {
    return ![...listed ?? otherListed!].some(([text, value]) =>
      types.has(typeOfValue(value)) && (otherListed?.has(text) ?? true) &&
      parts.values.holds(value, other) && parts.values.holds(value, made)
    );
  }
  const otherTypes = findValidTypes(b).types;
  return [...types].every((type) =>
    !otherTypes.has(type) ||
    orImpossible(() => excludesType(type, { a, b, parts, depth, isOpen }), () => true)
  );
}

interface Comparison {
  readonly a: Schemas;
  readonly b: Schemas;
  readonly parts: DisjointParts;
  readonly depth: number;
  /** Whether the schemas have choices that are still open. */
  readonly isOpen: boolean;
}

function excludesType(type: JsonType, compared: Comparison): boolean {
  const { a, b, parts } = compared;
  switch (type) {
    case "null":
    case "boolean":
      return false;
    case "string":
    case "number": {
      const { expressions } = parts;
      return expressions.isEmpty(
        expressions.and([compileScalar(type, a, parts), compileScalar(type, b, parts)]),
      );
    }
    case "array":
      return excludesArrays(compared);
    case "object":
      return excludesObjects(compared);
  }
}

function compileScalar(type: "string" | "number", nodes: Schemas, parts: DisjointParts): number {
  const { expressions, scalars } = parts;
  if (type === "number") return scalars.number(nodes, findTypes(nodes).isInteger);
  const quote = expressions.text('"');
  return expressions.concat([quote, scalars.canonicalInside(nodes), quote]);
}

function excludesArrays({ a, b, parts, depth }: Comparison): boolean {
  const own = arrayFacts(a, parts.document);
  const other = arrayFacts(b, parts.document);
  if (own.min > other.max || own.max < other.min) return true;
  for (let i = 0; i < Math.min(own.min, 8); i++) {
    const ownItem = own.prefix[i] ?? own.rest ?? [];
    const otherItem = other.prefix[i] ?? other.rest ?? [];
    if (excludes(ownItem, otherItem, parts, depth + 1)) return true;
  }
  return false;
}

function excludesObjects({ a, b, parts, depth, isOpen }: Comparison): boolean {
  const own = objectFacts(a, { ...parts, isOpen });
  const other = objectFacts(b, { ...parts, isOpen });
  if (own.min > other.max || own.max < other.min) return true;
  const byName = (members: readonly Member[]) => new Map(members.map((each) => [each.name, each]));
  const ownMembers = byName(own.members);
  const otherMembers = byName(other.members);
  const demands = own.members.some(({ name, isRequired, schemas }) => {
    if (!isRequired) return false;
    const theirs = otherMembers.get(name);
    if (theirs === undefined) return other.others.length === 0;
    return excludes(schemas, theirs.schemas, parts, depth + 1);
  });
  if (demands) return true;
  return other.members.some(({ name, isRequired }) =>
    isRequired && !ownMembers.has(name) && own.others.length === 0
  );
}
