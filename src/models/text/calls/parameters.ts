/**
 * The parameters of a function one by one, for formats that do not write all arguments as one JSON object.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { refusal } from "../../../engine/grammar/compiler.ts";
import { GrammarError } from "../../../engine/grammar/grammar.ts";
import { patternTest } from "../../../engine/grammar/pattern.ts";
import { memberParam } from "../../../engine/grammar/schema_document.ts";
import { typeOfValue } from "../../../engine/grammar/schema_facts.ts";
import { type GrammarSpec, sequence, text } from "../../../engine/grammar/spec.ts";
import type { ToolFunction } from "../../task.ts";
import {
  asObject,
  listApplicableSchemas,
  listNames,
  listSchemas,
  type Schema,
  stringsAt,
  typesOfSchemas,
} from "./argument_schemas.ts";

interface Parameter {
  readonly name: string;
  readonly isRequired: boolean;
  /** The types that its value may have; empty if the schema does not say. */
  readonly types: ReadonlySet<string>;
  /** The grammar of its value as JSON. */
  readonly grammar: GrammarSpec;
  /**
   * The grammar of its value as a string without quotation marks, followed by `ending`; the value does not contain
   * `without`.
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

/** Keywords that leave a string free. */
const FREE = new Set(["type", "title", "description", "default", "examples", "$comment"]);

/**
 * A function's parameters, in the order of its schema.
 *
 * @throws {HearthError} `invalid_value` if arguments must follow the schema and it constrains several parameters
 * together, or requires one whose name the format cannot write.
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
  const required = new Set(isBound ? holding.flatMap((each) => stringsAt(each, "required")) : []);
  const names = new Set([...listNames(holding), ...required]);
  if (isBound) requireEnforced(holding, { least: required.size, most: names.size, param });
  const within = { schema: parameters, param };
  return [...names].flatMap((name): Parameter[] => {
    const stated = listSchemas(holding, name);
    const isRequired = required.has(name);
    if (stated.includes(false) && !isRequired) return [];
    const types = typesOfSchemas(stated, parameters);
    const path = memberParam(`${param}.properties`, name);
    if (!isWritable(name)) {
      if (!isRequired) return [];
      throw new HearthError(
        "invalid_value",
        `${path}: this model's call format cannot express this name; use another.`,
        { param: path },
      );
    }
    const bound = { schema: stated.length === 1 ? stated[0] : { allOf: stated }, within };
    const loose = { schema: types.size > 0 ? { type: [...types] } : true };
    const isFree = !isBound ||
      stated.every((each) =>
        each !== false && Object.keys(asObject(each)).every((keyword) => FREE.has(keyword))
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

/** @param counts the least and the most parameters that a call can have. */
function requireEnforced(
  holding: readonly Schema[],
  { least, most, param }: { readonly least: number; readonly most: number; readonly param: string },
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
    const pattern of holding.flatMap((each) => Object.keys(asObject(each["patternProperties"])))
  ) {
    const fault = patternTest(pattern);
    if (fault instanceof GrammarError) {
      throw refusal(fault, memberParam(`${param}.patternProperties`, pattern));
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

/** Converts a value written without quotes to JSON: to one of its types if it parses as one, else to a string. */
export function rawToJson(raw: string, types: ReadonlySet<string>): string {
  const word = { True: "true", False: "false", None: "null" }[raw.trim()] ?? raw.trim();
  try {
    const type = typeOfValue(JSON.parse(word));
    const isInteger = type === "number" && types.has("integer");
    if (types.has(type) || isInteger) return word;
  } catch {
    // Not JSON, so it is a string.
  }
  return JSON.stringify(raw);
}

/** Whether values of these types can only be strings. */
export function isText(types: ReadonlySet<string>): boolean {
  return types.size === 0 || (types.size === 1 && types.has("string"));
}

/** Required items, then optional ones, both in order and with separators between them. */
export function listGrammar(
  items: readonly { readonly isRequired: boolean; readonly grammar: GrammarSpec }[],
  separator: string,
): GrammarSpec {
  const inOrder = items.toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired));
  return { kind: "list", items: inOrder, separator };
}
