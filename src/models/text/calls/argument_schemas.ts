/**
 * Finds what a function's JSON schema says about each of its arguments.
 *
 * @module
 */
import { patternTest } from "../../../engine/grammar/pattern.ts";
import { pointedAt } from "../../../engine/grammar/schema_document.ts";
import { KEYWORDS_OF, typeOfValue } from "../../../engine/grammar/schema_facts.ts";
import type { ToolFunction } from "../../task.ts";

export type Schema = Readonly<Record<string, unknown>>;

/** Keywords whose schemas apply to the same value as the schema around them. */
const BESIDE = ["allOf", "anyOf", "oneOf"];

/** All schemas that apply to the value of `parameters`: itself, and those reached through `$ref` and `keywords`. */
export function listApplicableSchemas(
  parameters: Schema,
  keywords: readonly string[] = ["allOf"],
): readonly Schema[] {
  const found = new Set<Schema>();
  const open: unknown[] = [parameters];
  while (open.length > 0) {
    const schema = open.pop();
    if (!isObject(schema) || found.has(schema)) continue;
    found.add(schema);
    const inner = keywords.flatMap((keyword) => schemasAt(schema, keyword));
    for (const each of [...referredBy(schema, parameters), ...inner].reverse()) open.push(each);
  }
  return [...found];
}

export function listNames(holding: readonly Schema[]): string[] {
  return holding.flatMap(({ properties }) => Object.keys(asObject(properties)));
}

/** What these schemas say about the value of a property. */
export function listSchemas(holding: readonly Schema[], name: string): unknown[] {
  const found = holding.flatMap((schema) => {
    const named = namedSchemas(schema, name);
    const { additionalProperties: others } = schema;
    return named.length > 0 || others === undefined ? named : [others];
  });
  return found.length > 0 ? found : [true];
}

/** What a schema says about a property, by its name or by a pattern that matches the name. */
function namedSchemas({ properties, patternProperties }: Schema, name: string): unknown[] {
  const own = asObject(properties);
  const byPattern = compilePatterns(asObject(patternProperties))
    .flatMap(([isFoundIn, schema]) => isFoundIn(name) ? [schema] : []);
  return [...Object.hasOwn(own, name) ? [own[name]] : [], ...byPattern];
}

type Pattern = readonly [isFoundIn: (name: string) => boolean, schema: unknown];

/** Each pattern is parsed once for all parameters and calls of an answer. */
const patterns = new WeakMap<Schema, readonly Pattern[]>();

/** The patterns that can be parsed. */
function compilePatterns(patternProperties: Schema): readonly Pattern[] {
  let found = patterns.get(patternProperties);
  if (found === undefined) {
    found = Object.entries(patternProperties).flatMap(([pattern, schema]): Pattern[] => {
      const test = patternTest(pattern);
      return typeof test === "function" ? [[test, schema]] : [];
    });
    patterns.set(patternProperties, found);
  }
  return found;
}

/** The types that a parameter's value may have; empty if the schema does not say. */
export function findTypes(called: ToolFunction | undefined, name: string): ReadonlySet<string> {
  const parameters = called?.parameters ?? {};
  const holding = listApplicableSchemas(parameters, BESIDE);
  const isNamed = holding.some((schema) => namedSchemas(schema, name).length > 0);
  return isNamed ? typesOfSchemas(listSchemas(holding, name), parameters) : new Set();
}

export function typesOfSchemas(schemas: readonly unknown[], document: Schema): ReadonlySet<string> {
  const types = new Set<string>();
  const seen = new Set<unknown>();
  const open = [...schemas];
  while (open.length > 0) {
    const schema = open.pop();
    if (!isObject(schema) || seen.has(schema)) continue;
    seen.add(schema);
    const { type, nullable, enum: values, const: value } = schema;
    const stated = [type].flat().filter((each) => typeof each === "string");
    const known = Array.isArray(values) ? values : value === undefined ? [] : [value];
    const others = BESIDE.flatMap((name) => schemasAt(schema, name));
    const inner = [...others, ...referredBy(schema, document)];
    const guessed = KEYWORDS_OF.find(([, keywords]) =>
      keywords.some((each) => Object.hasOwn(schema, each))
    );
    for (const each of [...stated, ...known.map(typeOfValue)]) types.add(each);
    if (nullable === true) types.add("null");
    if (stated.length + known.length + inner.length === 0 && guessed) types.add(guessed[0]);
    for (const each of inner) open.push(each);
  }
  return types;
}

function referredBy({ $ref }: Schema, document: Schema): unknown[] {
  return typeof $ref === "string" ? [pointedAt(document, $ref)] : [];
}

function schemasAt(schema: Schema, keyword: string): unknown[] {
  const value = schema[keyword];
  return Array.isArray(value) ? [...value] : [];
}

export function stringsAt(schema: Schema, keyword: string): string[] {
  return schemasAt(schema, keyword).filter((each) => typeof each === "string");
}

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asObject(value: unknown): Schema {
  return isObject(value) ? value : {};
}
