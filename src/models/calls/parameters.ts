/**
 * The parameters of a function, one by one, for formats that do not write arguments as one JSON object.
 *
 * @module
 */
import type { GrammarSpec } from "../../grammar/spec.ts";
import type { ToolFunction } from "../task.ts";

type Schema = Readonly<Record<string, unknown>>;

/** One parameter. */
interface Parameter {
  readonly name: string;
  readonly schema: unknown;
  readonly isRequired: boolean;
  /** Its value as JSON. */
  readonly grammar: GrammarSpec;
}

/** A function's parameters in the order of its schema. @param param path of the schema in the request. */
export function parametersOf(called: ToolFunction, param: string): Parameter[] {
  const { parameters, strict } = called;
  const properties = asObject(parameters?.["properties"]);
  const required = parameters?.["required"];
  const isRequired = (name: string) =>
    strict !== false && Array.isArray(required) && required.includes(name);
  // Definitions that a property refers to are kept beside it.
  const definitions = Object.fromEntries(
    ["$defs", "definitions"].flatMap((key) =>
      parameters?.[key] === undefined ? [] : [[key, parameters[key]]]
    ),
  );
  const looseSchema = (name: string) => {
    const types = [...typesOf(called, name)];
    return types.length > 0 ? { type: types } : true;
  };
  return Object.entries(properties).map(([name, stated]) =>
    [
      name,
      strict === false ? looseSchema(name) : stated,
    ] as const
  ).map(([name, schema]) => ({
    name,
    schema,
    isRequired: isRequired(name),
    grammar: {
      kind: "json_schema",
      schema: typeof schema === "object" ? { ...definitions, ...schema } : schema,
      param: `${param}.properties.${name}`,
    },
  }));
}

/** Types that a parameter's value may have; empty if the schema does not say. */
export function typesOf(called: ToolFunction | undefined, name: string): ReadonlySet<string> {
  return new Set(listTypes(asObject(called?.parameters?.["properties"])[name]));
}

function listTypes(schema: unknown): string[] {
  const { type, enum: values, const: value, anyOf, oneOf } = asObject(schema);
  const stated = [type].flat().filter((each) => typeof each === "string");
  const known = Array.isArray(values) ? values : value === undefined ? [] : [value];
  const inner = [anyOf, oneOf].flatMap((each) => Array.isArray(each) ? each : []);
  return [...stated, ...known.map(typeOfValue), ...inner.flatMap(listTypes)];
}

function typeOfValue(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** A value written without quotes, as JSON of one of its types, else a string. */
export function jsonOfRaw(raw: string, types: ReadonlySet<string>): string {
  const word = { True: "true", False: "false", None: "null" }[raw.trim()] ?? raw.trim();
  try {
    const type = typeOfValue(JSON.parse(word));
    const isInteger = type === "number" && types.has("integer");
    if (types.has(type) || isInteger) return word;
  } catch {
    // Not JSON: a string.
  }
  return JSON.stringify(raw);
}

/** Whether values are strings only. */
export function isText(types: ReadonlySet<string>): boolean {
  return types.size === 0 || (types.size === 1 && types.has("string"));
}

function asObject(value: unknown): Schema {
  return typeof value === "object" && value !== null ? value as Schema : {};
}

/** This text. */
export function text(text: string): GrammarSpec {
  return { kind: "text", text };
}

/** Required items and then optional ones, in order, between separators. */
export function listGrammar(
  items: readonly { readonly isRequired: boolean; readonly grammar: GrammarSpec }[],
  separator: string,
): GrammarSpec {
  const required = items.filter(({ isRequired }) => isRequired).map(({ grammar }) => grammar);
  const optional = items.filter(({ isRequired }) => !isRequired).map(({ grammar }) => grammar);
  const follow = (grammar: GrammarSpec): GrammarSpec => ({
    kind: "sequence",
    items: [text(separator), grammar],
  });
  const maybe = (grammar: GrammarSpec): GrammarSpec => ({
    kind: "repeat",
    item: follow(grammar),
    min: 0,
    max: 1,
  });
  const [first, ...others] = required;
  if (first !== undefined) {
    const sequence = [first, ...others.map(follow), ...optional.map(maybe)];
    return { kind: "sequence", items: sequence };
  }
  const starts = optional.map((grammar, index): GrammarSpec => ({
    kind: "sequence",
    items: [grammar, ...optional.slice(index + 1).map(maybe)],
  }));
  return { kind: "any_of", options: [text(""), ...starts] };
}
