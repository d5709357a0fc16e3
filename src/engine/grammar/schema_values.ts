/**
 * Decides whether a value that a schema lists is valid for other schemas, and whether a value generated for one schema
 * can be valid for another, which `oneOf` forbids.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { orImpossible } from "./grammar.ts";
import { inside } from "./json_text.ts";
import { readArrayFacts } from "./schema_contents.ts";
import type { JsonType, SchemaDocument, SchemaNode } from "./schema_document.ts";
import {
  canonical,
  type Choice,
  type Demands,
  findTypes,
  findValidTypes,
  gatherDemands,
  getType,
  listByText,
  listValues,
} from "./schema_facts.ts";
import { type Member, readObjectFacts } from "./schema_objects.ts";
import type { SchemaScalars } from "./schema_scalars.ts";

type Schemas = readonly SchemaNode[];
type Test = (value: unknown) => boolean;

/** The parts of the grammar under construction that tests need. */
interface ValueParts {
  readonly document: SchemaDocument;
  readonly expressions: Expressions;
  readonly scalars: SchemaScalars;
}

/** Tests values against the schemas of one grammar. Each test is made once. */
export class SchemaValues {
  readonly #parts: ValueParts;
  readonly #demands = new Map<string, Demands>();
  /** Tests by the schemas and by the type of the value. */
  readonly #tests = new Map<string, Test>();

  constructor(parts: ValueParts) {
    this.#parts = parts;
  }

  /**
   * Whether all schemas hold for a value.
   *
   * @throws {GrammarError} when one of their keywords cannot be tested, or testing takes too long.
   */
  holds(value: unknown, schemas: Schemas): boolean {
    return this.meets(value, this.#findDemands(schemas));
  }

  /** Whether a value meets the demands of schemas. @throws {GrammarError} as {@linkcode holds} does. */
  meets(value: unknown, { nodes, choices }: Demands): boolean {
    this.#parts.expressions.visit(1);
    if (nodes === undefined) return false;
    const [choice, ...others] = choices;
    if (choice === undefined) return this.#fits(value, nodes);
    const options = choice.options.filter((option) => this.holds(value, [option]));
    if (options.length === 0 || (choice.isExclusive && options.length > 1)) return false;
    // The members that `unevaluatedProperties` covers depend on all options that hold.
    const more = this.#findDemands(options);
    return this.meets(value, {
      nodes: [...new Set([...nodes, ...more.nodes!])],
      choices: [...others, ...more.choices],
    });
  }

  #findDemands(schemas: Schemas): Demands {
    const key = toKey(schemas);
    let demands = this.#demands.get(key);
    if (demands === undefined) {
      demands = gatherDemands(this.#parts.document, schemas);
      this.#demands.set(key, demands);
    }
    return demands;
  }

  /** Whether a value is valid for all nodes. @param nodes schemas without choices. */
  #fits(value: unknown, nodes: Schemas): boolean {
    const type = getType(value);
    const key = `${type} ${toKey(nodes)}`;
    let test = this.#tests.get(key);
    if (test === undefined) {
      test = orImpossible(() => this.#makeTest(type, nodes), () => () => false);
      this.#tests.set(key, test);
    }
    return test(value);
  }

  #makeTest(type: JsonType, nodes: Schemas): Test {
    const { types, isInteger } = findValidTypes(nodes);
    if (!types.has(type)) return () => false;
    const fits = this.#makeTypeTest(type, nodes, isInteger);
    const listed = listByText(nodes);
    if (listed === undefined) return fits;
    return (value) => listed.has(canonical(value)) && fits(value);
  }

  #makeTypeTest(type: JsonType, nodes: Schemas, isInteger: boolean): Test {
    const { expressions, scalars } = this.#parts;
    switch (type) {
      case "number": {
        const numbers = scalars.number(nodes, isInteger);
        return (value) => expressions.matches(numbers, canonical(value));
      }
      case "string": {
        const strings = scalars.canonicalInside(nodes);
        return (value) => expressions.matches(strings, inside(value as string));
      }
      case "array":
        return this.#makeArrayTest(nodes);
      case "object":
        return this.#makeObjectTest(nodes);
      default:
        return () => true;
    }
  }

  #makeArrayTest(nodes: Schemas): Test {
    const { prefix, rest, min, max } = readArrayFacts(nodes, this.#parts.document);
    const isUnique = listValues<boolean>(nodes, "uniqueItems").some((each) => each.value);
    return (value) => {
      const items = value as unknown[];
      if (items.length < min || items.length > max) return false;
      if (isUnique && new Set(items.map(canonical)).size < items.length) return false;
      return items.every((item, index) => {
        const schemas = prefix[index] ?? rest;
        return schemas !== undefined && this.holds(item, schemas);
      });
    };
  }

  #makeObjectTest(nodes: Schemas): Test {
    const { expressions } = this.#parts;
    const { members, others, min, max } = readObjectFacts(nodes, this.#parts);
    const named = new Map(members.map(({ name, schemas }) => [name, schemas]));
    const required = members.flatMap(({ name, isRequired }) => isRequired ? [name] : []);
    return (value) => {
      const object = value as Record<string, unknown>;
      const names = Object.keys(object);
      if (names.length < min || names.length > max) return false;
      if (!required.every((name) => Object.hasOwn(object, name))) return false;
      return names.every((name) => {
        const schemas = named.get(name) ??
          others.find((each) => expressions.matches(each.names, inside(name)))?.schemas;
        return schemas !== undefined && this.holds(object[name], schemas);
      });
    };
  }
}

function toKey(schemas: Schemas): string {
  return schemas.map(({ id }) => id).join();
}

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

/**
 * Whether no value generated for `made` is valid for `other`; false if that cannot be decided.
 *
 * @param options.without id of the choice whose options are compared; it is not applied again.
 */
export function excludes(
  made: Schemas,
  other: Schemas,
  parts: DisjointParts,
  { depth = 0, without }: { readonly depth?: number; readonly without?: string } = {},
): boolean {
  // Most tests below ignore choices within the schemas, which could only exclude further values.
  const { nodes: a, choices } = gatherDemands(parts.document, made);
  const { nodes: b, choices: otherChoices } = gatherDemands(parts.document, other);
  const isOpen = choices.length + otherChoices.length > 0;
  if (a === undefined || b === undefined) return true;
  if (depth > MAX_DEPTH) return false;
  parts.expressions.visit(VISITS_OF_COMPARISON);
  const listed = listByText(a);
  const otherListed = listByText(b);
  const { types } = findTypes(a);
  if (listed !== undefined || otherListed !== undefined) {
    const isMet = (value: unknown, nodes: Schemas, all: readonly Choice[]) =>
      parts.values.meets(value, { nodes, choices: all.filter(({ id }) => id !== without) });
    return ![...listed ?? otherListed!].some(([text, value]) =>
      types.has(getType(value)) && (otherListed?.has(text) ?? true) &&
      isMet(value, b, otherChoices) && isMet(value, a, choices)
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
  const own = readArrayFacts(a, parts.document);
  const other = readArrayFacts(b, parts.document);
  if (own.min > other.max || own.max < other.min) return true;
  for (let i = 0; i < Math.min(own.min, 8); i++) {
    const ownItem = own.prefix[i] ?? own.rest ?? [];
    const otherItem = other.prefix[i] ?? other.rest ?? [];
    if (excludes(ownItem, otherItem, parts, { depth: depth + 1 })) return true;
  }
  return false;
}

function excludesObjects({ a, b, parts, depth, isOpen }: Comparison): boolean {
  const own = readObjectFacts(a, { ...parts, isOpen });
  const other = readObjectFacts(b, { ...parts, isOpen });
  if (own.min > other.max || own.max < other.min) return true;
  const byName = (members: readonly Member[]) => new Map(members.map((each) => [each.name, each]));
  const ownMembers = byName(own.members);
  const otherMembers = byName(other.members);
  const demands = own.members.some(({ name, isRequired, schemas }) => {
    if (!isRequired) return false;
    const theirs = otherMembers.get(name);
    if (theirs === undefined) return other.others.length === 0;
    return excludes(schemas, theirs.schemas, parts, { depth: depth + 1 });
  });
  if (demands) return true;
  return other.members.some(({ name, isRequired }) =>
    isRequired && !ownMembers.has(name) && own.others.length === 0
  );
}
