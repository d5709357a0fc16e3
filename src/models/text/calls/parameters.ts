/**
 * The parameters of a function, for formats that write arguments one by one rather than as one JSON object.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { isRecord } from "../../../base/json.ts";
import { toRefusal } from "../../../engine/grammar/compiler.ts";
import { GrammarError, type GrammarSpec, sequence, text } from "../../../engine/grammar/grammar.ts";
import { makePatternTest } from "../../../engine/grammar/pattern.ts";
import { findPointed, toMemberParam } from "../../../engine/grammar/schema_document.ts";
import { getType, KEYWORDS_BY_TYPE } from "../../../engine/grammar/schema_facts.ts";
import type { ToolFunction } from "../../task.ts";

interface Parameter {
  readonly name: string;
  readonly isRequired: boolean;
  /** The types that its value may have; empty if the schema does not restrict them. */
  readonly types: ReadonlySet<string>;
  /** The grammar of its value as JSON. */
  readonly grammar: GrammarSpec;
  /**
   * Makes the grammar of its value as a string without quotation marks, followed by `ending`. The value must not
   * contain `without`.
   */
  textUntil(ending: string, without: string): GrammarSpec;
}

/** Keywords that constrain several parameters together, or their names. */
const UNENFORCED = [
  "anyOf",
  "oneOf",
  "not",
  "if",
  "propertyNames",
  "dependencies",
  "dependentRequired",
  "dependentSchemas",
];

/** Keywords that do not restrict a string. */
const FREE = new Set(["type", "title", "description", "default", "examples", "$comment"]);

/**
 * Lists a function's parameters in the order of its schema.
 *
 * @throws {HearthError} `invalid_value` if arguments must follow the schema, and it constrains several parameters
 * together or requires one whose name the format cannot write.
 */
export function listParameters(
  called: ToolFunction,
  { param, isWritable }: {
    /** Path of the schema in the request. */
    readonly param: string;
    /** Whether the format can write this name. */
    readonly isWritable: (name: string) => boolean;
  },
): Parameter[] {
  const { parameters = {}, strict } = called;
  const isBound = strict !== false;
  const holding = listApplicableSchemas(parameters);
  const required = new Set(isBound ? holding.flatMap((each) => listStrings(each, "required")) : []);
  const names = new Set([...listNames(holding), ...required]);
  if (isBound) requireEnforced(holding, { least: required.size, most: names.size, param });
  const within = { schema: parameters, param };
  return [...names].flatMap((name): Parameter[] => {
    const stated = listSchemas(holding, name);
    const isRequired = required.has(name);
    if (stated.includes(false) && !isRequired) return [];
    const types = findSchemaTypes(stated, parameters);
    const path = toMemberParam(`${param}.properties`, name);
    if (!isWritable(name)) {
      if (!isRequired) return [];
      throw new HearthError(
        "invalid_value",
        `${path}: this model's call format cannot express this name; use another name.`,
        { param: path },
      );
    }
    const bound = { schema: stated.length === 1 ? stated[0] : { allOf: stated }, within };
    const loose = { schema: types.size > 0 ? { type: [...types] } : true };
    const isFree = !isBound ||
      stated.every((each) =>
        each !== false && Object.keys(toObject(each)).every((keyword) => FREE.has(keyword))
      );
    return [{
      name,
      isRequired,
      types,
      grammar: { kind: "json_schema", param: path, ...isBound ? bound : loose },
      textUntil: (ending, without) =>
        isFree ? { kind: "until", ending } : sequence(
          {
            kind: "string",
            schema: { type: "string", allOf: stated },
            ...{ param: path, within, without },
          },
          text(ending),
        ),
    }];
  });
}

/** @throws {HearthError} when the schema has a keyword that cannot be enforced on arguments written one by one. */
function requireEnforced(
  holding: readonly Schema[],
  { least, most, param }: {
    /** The fewest parameters that a call can have. */
    readonly least: number;
    /** The most parameters that a call can have. */
    readonly most: number;
    readonly param: string;
  },
): void {
  const [keyword] = holding.flatMap((schema) => {
    const { minProperties = 0, maxProperties = Infinity } = schema;
    return [
      ...Number(minProperties) > least ? ["minProperties"] : [],
      ...Number(maxProperties) < most ? ["maxProperties"] : [],
      ...UNENFORCED.filter((name) => Object.hasOwn(schema, name)),
    ];
  });
  for (
    const pattern of holding.flatMap((each) => Object.keys(toObject(each["patternProperties"])))
  ) {
    const fault = makePatternTest(pattern);
    if (fault instanceof GrammarError) {
      throw toRefusal(fault, toMemberParam(`${param}.patternProperties`, pattern));
    }
  }
  if (keyword === undefined) return;
  throw new HearthError(
    "invalid_value",
    `${param}: this model's call format cannot enforce ${keyword} on the parameters; ` +
      "use properties and required only.",
    { param },
  );
}

/** Whether values of these types can only be strings. */
export function isText(types: ReadonlySet<string>): boolean {
  return types.size === 0 || (types.size === 1 && types.has("string"));
}

/** Makes the grammar of a list: first the required items, then the optional ones, with separators between them. */
export function makeListGrammar(
  items: readonly { readonly isRequired: boolean; readonly grammar: GrammarSpec }[],
  separator: string,
): GrammarSpec {
  const inOrder = items.toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired));
  return { kind: "list", items: inOrder, separator };
}

type Schema = Readonly<Record<string, unknown>>;

/** Keywords whose subschemas apply to the same value as the schema itself. */
const BESIDE = ["allOf", "anyOf", "oneOf"];

/** Lists the schemas that apply to all arguments: `parameters` and those reached from it by `$ref` and `keywords`. */
function listApplicableSchemas(
  parameters: Schema,
  keywords: readonly string[] = ["allOf"],
): readonly Schema[] {
  const found = new Set<Schema>();
  const open: unknown[] = [parameters];
  while (open.length > 0) {
    const schema = open.pop();
    if (!isRecord(schema) || found.has(schema)) continue;
    found.add(schema);
    const inner = keywords.flatMap((keyword) => listSubschemas(schema, keyword));
    for (const each of [...listReferred(schema, parameters), ...inner].reverse()) open.push(each);
  }
  return [...found];
}

function listNames(holding: readonly Schema[]): string[] {
  return holding.flatMap(({ properties }) => Object.keys(toObject(properties)));
}

/** Lists the subschemas that apply to a property. */
function listSchemas(holding: readonly Schema[], name: string): unknown[] {
  const found = holding.flatMap((schema) => {
    const named = listNamedSchemas(schema, name);
    const { additionalProperties: others } = schema;
    return named.length > 0 || others === undefined ? named : [others];
  });
  return found.length > 0 ? found : [true];
}

/** Lists a schema's subschemas for a property, by its name or by a pattern that matches the name. */
function listNamedSchemas({ properties, patternProperties }: Schema, name: string): unknown[] {
  const own = toObject(properties);
  const byPattern = compilePatterns(toObject(patternProperties))
    .flatMap(([isFoundIn, schema]) => isFoundIn(name) ? [schema] : []);
  return [...Object.hasOwn(own, name) ? [own[name]] : [], ...byPattern];
}

type Pattern = readonly [isFoundIn: (name: string) => boolean, schema: unknown];

/** Compiled patterns, so that each is parsed once for all parameters and calls of an answer. */
const patterns = new WeakMap<Schema, readonly Pattern[]>();

/** Compiles the patterns that can be parsed; the others are left out. */
function compilePatterns(patternProperties: Schema): readonly Pattern[] {
  let found = patterns.get(patternProperties);
  if (found === undefined) {
    found = Object.entries(patternProperties).flatMap(([pattern, schema]): Pattern[] => {
      const test = makePatternTest(pattern);
      return typeof test === "function" ? [[test, schema]] : [];
    });
    patterns.set(patternProperties, found);
  }
  return found;
}

/** Lists the names of a function's parameters. */
export function listParameterNames(called: ToolFunction | undefined): string[] {
  return listNames(listApplicableSchemas(called?.parameters ?? {}, BESIDE));
}

/** Finds the types that a parameter's value may have; empty if the schema does not restrict them. */
export function findTypes(called: ToolFunction | undefined, name: string): ReadonlySet<string> {
  const parameters = called?.parameters ?? {};
  const holding = listApplicableSchemas(parameters, BESIDE);
  const isNamed = holding.some((schema) => listNamedSchemas(schema, name).length > 0);
  return isNamed ? findSchemaTypes(listSchemas(holding, name), parameters) : new Set();
}

/** Python's names of types, which some tools use in their schemas. */
const PYTHON_TYPES: Readonly<Record<string, string>> = {
  __proto__: null!,
  str: "string",
  int: "integer",
  float: "number",
  bool: "boolean",
  list: "array",
  tuple: "array",
  dict: "object",
};

function findSchemaTypes(schemas: readonly unknown[], document: Schema): ReadonlySet<string> {
  const types = new Set<string>();
  const seen = new Set<unknown>();
  const open = [...schemas];
  while (open.length > 0) {
    const schema = open.pop();
    if (!isRecord(schema) || seen.has(schema)) continue;
    seen.add(schema);
    const { type, nullable, enum: values, const: value } = schema;
    const stated = [type].flat().filter((each) => typeof each === "string")
      .map((each) => PYTHON_TYPES[each] ?? each);
    const known = Array.isArray(values) ? values : value === undefined ? [] : [value];
    const others = BESIDE.flatMap((name) => listSubschemas(schema, name));
    const inner = [...others, ...listReferred(schema, document)];
    const guessed = KEYWORDS_BY_TYPE.filter(([, keywords]) =>
      keywords.some((each) => Object.hasOwn(schema, each))
    );
    for (const each of [...stated, ...known.map(getType)]) types.add(each);
    if (nullable === true) types.add("null");
    if (stated.length + known.length + inner.length === 0) {
      for (const [each] of guessed) types.add(each);
    }
    for (const each of inner) open.push(each);
  }
  return types;
}

function listReferred({ $ref }: Schema, document: Schema): unknown[] {
  return typeof $ref === "string" ? [findPointed(document, $ref)] : [];
}

function listSubschemas(schema: Schema, keyword: string): unknown[] {
  const value = schema[keyword];
  return Array.isArray(value) ? [...value] : [];
}

function listStrings(schema: Schema, keyword: string): string[] {
  return listSubschemas(schema, keyword).filter((each) => typeof each === "string");
}

function toObject(value: unknown): Schema {
  return isRecord(value) ? value : {};
}
