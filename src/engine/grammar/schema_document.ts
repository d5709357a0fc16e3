/**
 * A JSON schema as a document: its nodes, whose keywords are checked, and the targets of `$ref`.
 *
 * @module
 */
import { getMember, isRecord } from "../../base/json.ts";
import { GrammarError } from "./grammar.ts";

/** A schema within the document. */
export interface SchemaNode {
  readonly id: number;
  /** Keywords; `false` for a `false` schema, and empty for a `true` schema. */
  readonly keywords: Readonly<Record<string, unknown>> | false;
  /** Path of the schema in the request. */
  readonly param: string;
}

/** The types of JSON. */
export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object";

const TYPES = ["null", "boolean", "number", "string", "array", "object", "integer"];
const MAX_DEPTH = 400;
/** Maximum number of values in a schema. */
const MAX_VALUES = 50_000;

type Check = readonly [wanted: string, isGood: (value: unknown) => boolean];

const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;
const isStrings = (value: unknown) =>
  Array.isArray(value) && value.every((each) => typeof each === "string");
const isSchema = (value: unknown) => isRecord(value) || typeof value === "boolean";
const isSchemas = (value: unknown) =>
  Array.isArray(value) && value.length > 0 && value.every(isSchema);

const COUNT: Check = ["a whole number from 0 up", isCount];
const NUMBER: Check = ["a number", (value) => typeof value === "number"];
const TEXT: Check = ["a string", (value) => typeof value === "string"];
const SCHEMA: Check = ["a schema", isSchema];
const SCHEMAS: Check = ["a non-empty array of schemas", isSchemas];
const SCHEMAS_BY_NAME: Check = [
  "an object of schemas",
  (value) => isRecord(value) && Object.values(value).every(isSchema),
];
const LIMIT: Check = [
  "a number, or true or false",
  (value) => typeof value === "number" || typeof value === "boolean",
];

/** Keywords that are enforced, and the types of their values. */
const CHECKS: Readonly<Record<string, Check>> = {
  type: [
    `one of ${TYPES.join(", ")}, or an array of these`,
    (value) =>
      (Array.isArray(value) ? value : [value]).every((each) => TYPES.includes(each as string)),
  ],
  enum: ["a non-empty array", (value) => Array.isArray(value) && value.length > 0],
  minimum: NUMBER,
  maximum: NUMBER,
  exclusiveMinimum: LIMIT,
  exclusiveMaximum: LIMIT,
  multipleOf: ["a number above 0", (value) => typeof value === "number" && value > 0],
  minLength: COUNT,
  maxLength: COUNT,
  pattern: TEXT,
  format: TEXT,
  properties: SCHEMAS_BY_NAME,
  patternProperties: SCHEMAS_BY_NAME,
  additionalProperties: SCHEMA,
  unevaluatedProperties: SCHEMA,
  propertyNames: SCHEMA,
  required: ["an array of strings", isStrings],
  minProperties: COUNT,
  maxProperties: COUNT,
  prefixItems: ["an array of schemas", (value) => Array.isArray(value) && value.every(isSchema)],
  items: [
    "a schema, or an array of schemas",
    (value) => isSchema(value) || (Array.isArray(value) && value.every(isSchema)),
  ],
  additionalItems: SCHEMA,
  minItems: COUNT,
  maxItems: COUNT,
  uniqueItems: ["true or false", (value) => typeof value === "boolean"],
  nullable: ["true or false", (value) => typeof value === "boolean"],
  allOf: SCHEMAS,
  anyOf: SCHEMAS,
  oneOf: SCHEMAS,
  $ref: TEXT,
};

/** Keywords that constrain an answer but cannot be enforced. */
const REFUSED = new Set([
  "not",
  "if",
  "then",
  "else",
  "dependencies",
  "dependentRequired",
  "dependentSchemas",
  "contains",
  "minContains",
  "maxContains",
  "unevaluatedItems",
  "$dynamicRef",
  "$recursiveRef",
]);

/** A JSON schema whose parts may refer to each other. */
export class SchemaDocument {
  readonly root: SchemaNode;
  readonly #rootSchema: unknown;
  readonly #param: string;
  readonly #nodes = new Map<unknown, SchemaNode>();
  /** Schemas by `$anchor` and `$id`. */
  readonly #named = new Map<string, { readonly schema: unknown; readonly param: string }>();

  /** Reads a schema. @throws {GrammarError} when it is not a schema, or is too large or deep. */
  constructor(schema: unknown, param: string) {
    this.#rootSchema = schema;
    this.#param = param;
    this.#survey();
    this.root = this.node(schema, param);
  }

  /** Returns the node of a schema in the document. @throws {GrammarError} when the schema cannot be enforced. */
  node(schema: unknown, param: string): SchemaNode {
    if (typeof schema === "boolean") return { id: schema ? -1 : -2, keywords: schema && {}, param };
    let node = this.#nodes.get(schema);
    if (node === undefined) {
      if (!isRecord(schema)) {
        const message = `want a schema (an object, true or false), saw ${show(schema)}`;
        throw new GrammarError(message, param);
      }
      const keywords = readKeywords(schema, param);
      this.#nodes.set(schema, node = { id: this.#nodes.size, keywords, param });
    }
    return node;
  }

  /** Finds the node that a `$ref` refers to. */
  resolve(reference: string, param: string): SchemaNode {
    const named = this.#named.get(reference);
    if (named !== undefined) return this.node(named.schema, named.param);
    const path = parsePath(reference);
    let schema: unknown = this.#rootSchema;
    let target = this.#param;
    for (const name of path ?? []) {
      schema = getMember(schema, name);
      target = toMemberParam(target, name);
    }
    if (path === undefined || !isSchema(schema)) {
      const message = `"${shorten(reference)}" is not a schema in this document, and other ` +
        "documents are not fetched";
      throw new GrammarError(message, `${param}.$ref`);
    }
    return this.node(schema, target);
  }

  /** Visits every value once, to count values and collect names. */
  #survey(): void {
    let numValues = 0;
    const open: { value: unknown; param: string; depth: number; place: Place }[] = [
      { value: this.#rootSchema, param: this.#param, depth: 1, place: "schema" },
    ];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { value, param, depth, place } = next;
      if (++numValues > MAX_VALUES) {
        throw new GrammarError(`the schema has more than ${MAX_VALUES} values`, this.#param);
      }
      if (typeof value !== "object" || value === null) continue;
      if (depth > MAX_DEPTH) {
        throw new GrammarError(`the schema is deeper than ${MAX_DEPTH} levels`, this.#param);
      }
      for (const [name, inner] of Object.entries(value)) {
        if (place === "schema" && typeof inner === "string") {
          if (name === "$id") {
            this.#named.set(inner, { schema: value, param });
            this.#named.set(`${inner}#`, { schema: value, param });
          } else if (name === "$anchor") this.#named.set(`#${inner}`, { schema: value, param });
        }
        open.push({
          value: inner,
          place: findPlace(name, place),
          param: Array.isArray(value) ? `${param}[${name}]` : toMemberParam(param, name),
          depth: depth + 1,
        });
      }
    }
  }
}

/** The place of a value in a schema document: a schema, schemas by name, or data. */
type Place = "schema" | "schemas" | "data";

const PLACES: Readonly<Record<string, Place>> = {
  ...{ properties: "schemas", patternProperties: "schemas", $defs: "schemas" },
  ...{ definitions: "schemas", dependentSchemas: "schemas" },
  ...{ enum: "data", const: "data", default: "data", examples: "data" },
};

/** The place of the member `name` of a value in `place`. */
function findPlace(name: string, place: Place): Place {
  if (place === "data") return "data";
  return place === "schema" && Object.hasOwn(PLACES, name) ? PLACES[name]! : "schema";
}

/** The names in a pointer such as `#/$defs/a`; `undefined` if it does not point into its own document. */
function parsePath(reference: string): string[] | undefined {
  if (reference === "#") return [];
  return reference.startsWith("#/") ? reference.slice(2).split("/").map(decodePart) : undefined;
}

/** Finds the value that a JSON pointer such as `#/$defs/a` refers to, if there is one. */
export function findPointed(document: unknown, reference: string): unknown {
  const path = parsePath(reference);
  return path?.reduce(getMember, document);
}

/** The path of a member of the value at `param`. */
export function toMemberParam(param: string, name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name)
    ? `${param}.${shorten(name)}`
    : `${param}[${JSON.stringify(shorten(name))}]`;
}

function shorten(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 60)}…`;
}

function show(value: unknown): string {
  return shorten(JSON.stringify(value) ?? "nothing");
}

function decodePart(part: string): string {
  let decoded = part;
  try {
    decoded = decodeURIComponent(part);
  } catch {
    // A percent sign that begins no escape stands for itself.
  }
  return decoded.replaceAll("~1", "/").replaceAll("~0", "~");
}

/**
 * Reads the keywords of a schema. Keywords that are `null` are left out, because some libraries write absent keywords
 * so, and so is `not: false`. With `not: {}` or `not: true`, the schema matches nothing.
 */
function readKeywords(
  schema: Readonly<Record<string, unknown>>,
  param: string,
): SchemaNode["keywords"] {
  const isSilent = ([name, value]: [string, unknown]) =>
    (value === null && (Object.hasOwn(CHECKS, name) || REFUSED.has(name))) ||
    (name === "not" && value === false);
  const entries = Object.entries(schema);
  const said = entries.some(isSilent)
    ? Object.fromEntries(entries.filter((entry) => !isSilent(entry)))
    : schema;
  const { not } = said;
  if (not === true || (isRecord(not) && Object.keys(not).length === 0)) return false;
  checkKeywords(said, param);
  return said;
}

function checkKeywords(schema: Readonly<Record<string, unknown>>, param: string): void {
  for (const [name, value] of Object.entries(schema)) {
    if (REFUSED.has(name)) {
      throw new GrammarError(`${name} cannot be enforced`, `${param}.${name}`);
    }
    if (!Object.hasOwn(CHECKS, name)) continue;
    const [wanted, isGood] = CHECKS[name]!;
    if (isGood(value)) continue;
    throw new GrammarError(`want ${wanted}, saw ${show(value)}`, `${param}.${name}`);
  }
}
