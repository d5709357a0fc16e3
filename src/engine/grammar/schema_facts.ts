/**
 * Merges JSON schemas that apply together, such as through `$ref` and `allOf`.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { GrammarError } from "./grammar.ts";
import {
  type JsonType,
  type SchemaDocument,
  type SchemaNode,
  toMemberParam,
} from "./schema_document.ts";

/** Alternative schemas: one of them must hold. */
export interface Choice {
  /** An id that is the same for the same keyword of the same schema. */
  readonly id: string;
  readonly options: readonly SchemaNode[];
  /** Whether only one option may hold. */
  readonly isExclusive: boolean;
  readonly param: string;
}

/** The constraints on a value: all keywords of the nodes, and one option of each choice. */
export interface Demands {
  /**
   * Schemas whose `$ref`, `allOf`, `anyOf` and `oneOf` have been resolved; `undefined` if no value can satisfy them.
   */
  readonly nodes: readonly SchemaNode[] | undefined;
  readonly choices: readonly Choice[];
}

export const ALL_TYPES: readonly JsonType[] = [
  "null",
  "boolean",
  "number",
  "string",
  "array",
  "object",
];

/** Follows the references of schemas that apply together. @throws {GrammarError} when one refers to itself. */
export function gatherDemands(
  document: SchemaDocument,
  schemas: readonly SchemaNode[],
): Demands {
  const nodes = new Set<SchemaNode>();
  const choices: Choice[] = [];
  const open = new Set<SchemaNode>();
  let isImpossible = false;
  const follow = (node: SchemaNode) => {
    if (open.has(node)) throw new GrammarError("the schema refers to itself", node.param);
    if (node.keywords === false) isImpossible = true;
    if (node.keywords === false || nodes.has(node)) return;
    if (Object.keys(node.keywords).length === 0) return;
    nodes.add(node);
    open.add(node);
    const { keywords, param } = node;
    const $ref = keywords["$ref"] as string | undefined;
    if ($ref !== undefined) follow(document.resolve($ref, param));
    for (const each of listSchemas(document, node, "allOf")) follow(each);
    for (const name of ["anyOf", "oneOf"] as const) {
      const options = listSchemas(document, node, name);
      if (options.length === 0) continue;
      const isExclusive = name === "oneOf";
      choices.push({ id: `${node.id}${name}`, options, isExclusive, param: `${param}.${name}` });
    }
    open.delete(node);
  };
  schemas.forEach(follow);
  return { nodes: isImpossible ? undefined : [...nodes], choices };
}

/** Lists the schemas in a node's `$ref`, `allOf`, `anyOf` and `oneOf`, which apply to the same value as the node. */
export function listBeside(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  if (node.keywords === false) return [];
  const $ref = node.keywords["$ref"] as string | undefined;
  return [
    ...$ref === undefined ? [] : [document.resolve($ref, node.param)],
    ...["allOf", "anyOf", "oneOf"].flatMap((name) => listSchemas(document, node, name)),
  ];
}

function listSchemas(document: SchemaDocument, node: SchemaNode, name: string): SchemaNode[] {
  const list = node.keywords === false ? [] : node.keywords[name] as unknown[] ?? [];
  return list.map((each, i) => document.node(each, `${node.param}.${name}[${i}]`));
}

/** Lists the values of a keyword in all nodes that have it, with their paths. */
export function listValues<T>(
  nodes: readonly SchemaNode[],
  keyword: string,
): { readonly value: T; readonly param: string; readonly node: SchemaNode }[] {
  return nodes.flatMap((node) => {
    if (node.keywords === false || !Object.hasOwn(node.keywords, keyword)) return [];
    return [{
      value: node.keywords[keyword] as T,
      param: toMemberParam(node.param, keyword),
      node,
    }];
  });
}

/** Finds the types that a value may have, and whether numbers must be whole. */
export function findTypes(nodes: readonly SchemaNode[]): {
  readonly types: ReadonlySet<JsonType>;
  readonly isInteger: boolean;
} {
  let types: Set<string> | undefined;
  let isInteger = false;
  for (const { value, node } of listValues<string | string[]>(nodes, "type")) {
    const named = new Set([value].flat());
    if (node.keywords !== false && node.keywords["nullable"] === true) named.add("null");
    if (named.has("number")) named.delete("integer");
    else if (named.delete("integer")) {
      named.add("number");
      isInteger = true;
    }
    types = types === undefined ? named : types.intersection(named);
  }
  types ??= new Set(guessTypes(nodes));
  return { types: types as Set<JsonType>, isInteger };
}

/** Finds the types that a validator would allow, which are all types if no schema names one. */
export function findValidTypes(nodes: readonly SchemaNode[]): ReturnType<typeof findTypes> {
  const isNamed = listValues(nodes, "type").length > 0;
  return isNamed ? findTypes(nodes) : { types: new Set(ALL_TYPES), isInteger: false };
}

/** Keywords by the type that they apply to. */
export const KEYWORDS_BY_TYPE: readonly (readonly [JsonType, readonly string[]])[] = [
  ["object", [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "minProperties",
    "maxProperties",
  ]],
  ["array", ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "additionalItems"]],
  ["string", ["pattern", "minLength", "maxLength", "format"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

/** Guesses the types of values for a schema without `type`: the types that its keywords apply to. */
function guessTypes(nodes: readonly SchemaNode[]): readonly JsonType[] {
  if (listValues(nodes, "enum").length + listValues(nodes, "const").length > 0) return ALL_TYPES;
  const types = KEYWORDS_BY_TYPE.flatMap(([type, keywords]) =>
    keywords.some((keyword) => listValues(nodes, keyword).length > 0) ? [type] : []
  );
  return types.length > 0 ? types : ALL_TYPES;
}

/** Canonical texts of lists, cached because they may be needed often. */
const textsOfLists = new WeakMap<readonly unknown[], ReadonlyMap<string, unknown>>();

function mapByText(list: readonly unknown[]): ReadonlyMap<string, unknown> {
  let found = textsOfLists.get(list);
  if (found === undefined) {
    found = new Map(list.map((value) => [canonical(value), value]));
    textsOfLists.set(list, found);
  }
  return found;
}

/** Lists the values that `enum` and `const` allow, by their canonical texts; `undefined` without either keyword. */
export function listByText(
  nodes: readonly SchemaNode[],
): ReadonlyMap<string, unknown> | undefined {
  const lists = [
    ...listValues<unknown[]>(nodes, "enum").map(({ value }) => mapByText(value)),
    ...listValues(nodes, "const").map(({ value }) => new Map([[canonical(value), value]])),
  ];
  const [first, ...others] = lists;
  if (first === undefined || others.length === 0) return first;
  return new Map([...first].filter(([text]) => others.every((other) => other.has(text))));
}

/** Lists the values that `enum` and `const` allow; `undefined` without either keyword. */
export function listValuesAllowed(nodes: readonly SchemaNode[]): unknown[] | undefined {
  const listed = listByText(nodes);
  return listed && [...listed.values()];
}

/** Writes a value so that equal values have equal texts. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return JSON.stringify(
    value,
    (_key, each) =>
      isRecord(each)
        ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => a < b ? -1 : 1))
        : each,
  );
}

export function getType(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value as JsonType;
}
