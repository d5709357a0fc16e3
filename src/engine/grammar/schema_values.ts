/**
 * Decides whether a value that a schema lists is valid for other schemas.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { orImpossible } from "./grammar.ts";
import { inside } from "./json_text.ts";
import { arrayFacts } from "./schema_arrays.ts";
import type { JsonType, SchemaDocument, SchemaNode } from "./schema_document.ts";
import {
  canonical,
  type Demands,
  findValidTypes,
  gatherDemands,
  listedByText,
  listValues,
  typeOfValue,
} from "./schema_facts.ts";
import { objectFacts } from "./schema_objects.ts";
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
    // What `unevaluatedProperties` covers depends on all options that hold.
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
    const type = typeOfValue(value);
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
    const fits = this.#testOfType(type, nodes, isInteger);
    const listed = listedByText(nodes);
    if (listed === undefined) return fits;
    return (value) => listed.has(canonical(value)) && fits(value);
  }

  #testOfType(type: JsonType, nodes: Schemas, isInteger: boolean): Test {
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
        return this.#testOfArrays(nodes);
      case "object":
        return this.#testOfObjects(nodes);
      default:
        return () => true;
    }
  }

  #testOfArrays(nodes: Schemas): Test {
    const { prefix, rest, min, max } = arrayFacts(nodes, this.#parts.document);
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

  #testOfObjects(nodes: Schemas): Test {
    const { expressions } = this.#parts;
    const { members, others, min, max } = objectFacts(nodes, this.#parts);
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
