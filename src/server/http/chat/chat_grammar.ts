/**
 * Builds a task's grammar from the structured-output fields of a request.
 *
 * @module
 */
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { HearthError } from "../../../base/errors.ts";
import type { GrammarSpec } from "../../../engine/grammar/grammar.ts";

/** A format for the answer, and the path of the request's field that sets it. */
interface Found {
  readonly param: string;
  readonly spec: GrammarSpec;
}

/**
 * Returns the grammar of the format that the answer must have; `undefined` if it may have any format.
 *
 * @throws {HearthError} `invalid_value` when two fields set a format, or a schema is not JSON or nested too deeply.
 */
export function toGrammar(request: ChatRequest): GrammarSpec | undefined {
  return findFormat(request)?.spec;
}

/**
 * Finds the format of the answer, and the field that sets it.
 *
 * @throws {HearthError} `invalid_value` as {@linkcode toGrammar} does.
 */
export function findFormat(request: ChatRequest): Found | undefined {
  const found = [
    ...listResponseFormats(request),
    ...listStructuredOutputs(request),
    ...listOtherFormats(request),
  ];
  const [first, second] = found;
  if (second === undefined) return first;
  const { param } = second;
  const message = `${param}: the answer's format is already set by ${
    first!.param
  }; want only one of the two.`;
  throw new HearthError("invalid_value", message, { param });
}

function listResponseFormats({ response_format: format }: ChatRequest): Found[] {
  const param = "response_format";
  switch (format?.type) {
    case "json_object":
      return format.schema === undefined || format.schema === null
        ? [{ param, spec: { kind: "json_object" } }]
        : [schemaAt(format.schema, `${param}.schema`)];
    case "json_schema":
      return format.json_schema
        ? [schemaAt(format.json_schema.schema, `${param}.json_schema.schema`)]
        : [schemaAt(format.schema, `${param}.schema`)];
    default:
      return [];
  }
}

function listStructuredOutputs({ structured_outputs: outputs }: ChatRequest): Found[] {
  if (outputs === undefined || outputs === null) return [];
  const at = (name: string) => `structured_outputs.${name}`;
  const { json, regex, choice, grammar, json_object } = outputs;
  return [
    ...given(json, (schema) => schemaAt(schema, at("json"))),
    ...given(regex, (pattern) => regexAt(pattern, at("regex"))),
    ...given(choice, (choices) => choiceAt(choices, at("choice"))),
    ...given(grammar, (text) => grammarAt(text, at("grammar"))),
    ...(json_object === true
      ? [{ param: at("json_object"), spec: { kind: "json_object" } } as const]
      : []),
  ];
}

function listOtherFormats(request: ChatRequest): Found[] {
  return [
    ...given(request.guided_json, (schema) => schemaAt(schema, "guided_json")),
    ...given(request.guided_regex || undefined, (pattern) => regexAt(pattern, "guided_regex")),
    ...given(request.guided_choice, (choices) => choiceAt(choices, "guided_choice")),
    ...given(request.guided_grammar || undefined, (text) => grammarAt(text, "guided_grammar")),
    ...given(request.grammar || undefined, (text) => grammarAt(text, "grammar")),
    ...given(request.json_schema, (schema) => schemaAt(schema, "json_schema")),
    ...given(request.format || undefined, formatAt),
  ];
}

function given<T>(value: T | null | undefined, make: (value: T) => Found): Found[] {
  return value === undefined || value === null ? [] : [make(value)];
}

function schemaAt(schemaOrText: unknown, param: string): Found {
  let schema = schemaOrText;
  if (typeof schemaOrText === "string") {
    try {
      schema = JSON.parse(schemaOrText);
    } catch {
      const message = `${param}: want a JSON schema, saw text that is not JSON.`;
      throw new HearthError("invalid_value", message, { param });
    }
  }
  requireShallow(schema, param);
  return { param, spec: { kind: "json_schema", schema, param } };
}

function formatAt(format: NonNullable<ChatRequest["format"]>): Found {
  const param = "format";
  return format === "json" ? { param, spec: { kind: "json_object" } } : schemaAt(format, param);
}

function regexAt(pattern: string, param: string): Found {
  return { param, spec: { kind: "regex", pattern, param } };
}

function choiceAt(choices: readonly string[], param: string): Found {
  return { param, spec: { kind: "choice", choices } };
}

function grammarAt(text: string, param: string): Found {
  return { param, spec: { kind: "gbnf", text, param } };
}

/** Maximum nesting depth of a schema. Copying a deeper schema to the worker would overflow the stack. */
const MAX_DEPTH = 500;

/** Checks a schema's depth. @throws {HearthError} `invalid_value` when it is too deep. */
function requireShallow(schema: unknown, param: string): void {
  let level: unknown[] = [schema];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) {
      const message = `${param}: want a schema of at most ${MAX_DEPTH} levels, saw a deeper one.`;
      throw new HearthError("invalid_value", message, { param });
    }
    level = level.flatMap((value) =>
      typeof value === "object" && value !== null ? Object.values(value) : []
    );
  }
}
