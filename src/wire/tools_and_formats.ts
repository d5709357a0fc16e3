/**
 * The fields of a chat request about tools, and the fields that constrain the answer's format: OpenAI's
 * `response_format`, vLLM's `structured_outputs` and older `guided_*`, and llama.cpp's `grammar` and `json_schema`.
 *
 * @module
 */
import { z } from "zod";
import { isRecord } from "../base/json.ts";
import {
  anyText,
  flag,
  functionName,
  jsonSchema,
  listSchema,
  notServed,
  openObject,
  SCHEMA_WANTED,
  text,
} from "./fields.ts";

const MAX_TOOLS = 1024;

/**
 * The schema of a function's arguments. Here it must only be an object; the rest is checked where it is used. JSON
 * Schema also has boolean schemas: `true` allows any arguments.
 */
export const Parameters = z.preprocess(
  (schema) => schema === true ? { type: "object" } : schema,
  openObject("a JSON schema of an object")
    .refine(
      ({ type }) => type === undefined || [type].flat().includes("object"),
      { path: ["type"], error: '"object", as a function takes its arguments by name' },
    ),
);

/**
 * The schema of a function's arguments, if there is one. `false`, which would allow no arguments object at all, counts
 * as no schema.
 */
export const OptionalParameters = z.preprocess(
  (schema) => schema === false ? undefined : schema,
  Parameters.nullish(),
).optional();

const Function = z.object({
  name: functionName(),
  description: anyText().nullish(),
  parameters: OptionalParameters.describe("JSON schema of an object, or `true` for any arguments"),
  strict: flag().nullish().describe("Constrain the arguments to the schema"),
}, { error: "an object with a name" }).meta({ id: "Function" });

const FunctionTool = z.object({
  type: z.literal("function", { error: '"function"' }),
  function: Function,
}, { error: "an object with type and function" }).meta({ id: "Tool" });

/** A tool that another server would run; it is ignored here. */
const HostedTool = z.object({ type: text("a type") })
  .refine(({ type }) => type !== "function", { abort: true });

/** A tool. The function's fields may also be in the tool itself, as in the Responses API. */
const Tool = z.preprocess(
  nestFunction,
  z.union([FunctionTool, HostedTool], { error: "an object with type and function" }),
);

function nestFunction(value: unknown): unknown {
  const isFlat = isRecord(value) && "name" in value && !("function" in value) &&
    value["type"] === "function";
  return isFlat ? { type: "function", function: value } : value;
}

const NamedTool = z.preprocess(
  nestFunction,
  z.object({
    type: z.literal("function", { error: '"function" or "allowed_tools"' }),
    function: z.object({ name: functionName() }, { error: "an object with a name" }),
  }),
);

const AllowedTools = z.object({
  type: z.literal("allowed_tools"),
  allowed_tools: z.object({
    mode: z.enum(["auto", "required"], { error: '"auto" or "required"' }),
    tools: listSchema(NamedTool, { min: 1, max: MAX_TOOLS }),
  }, { error: "an object with mode and tools" }),
});

const choiceWanted = '"auto", "none", "required", or an object that names functions';

const CHOICES = ["auto", "none", "required", "any"] as const;
const ToolChoice = z.union([
  z.enum(CHOICES),
  NamedTool,
  AllowedTools,
  z.object({ type: z.enum(CHOICES) }),
], { error: choiceWanted });

export const TOOL_FIELDS = {
  tools: listSchema(Tool, { max: MAX_TOOLS }).nullish().describe(
    "Functions that the model may call",
  ),
  tool_choice: ToolChoice.nullish()
    .describe(
      "Whether the model may call functions (auto), must (required), or must call a named one; default auto",
    ),
  parallel_tool_calls: flag().nullish()
    .describe("Whether an answer may hold several calls; default true"),
  functions: listSchema(Function, { max: MAX_TOOLS }).nullish()
    .meta({ deprecated: true, description: "The older name of tools" }),
  function_call: z.union(
    [z.enum(["auto", "none"]), z.object({ name: functionName() })],
    { error: '"auto", "none", or an object with the name of a function' },
  ).nullish().meta({ deprecated: true, description: "The older name of tool_choice" }),
};

/** The fields of a parsed request. */
export type ToolFields = {
  readonly [Name in keyof typeof TOOL_FIELDS]?: z.output<(typeof TOOL_FIELDS)[Name]> | undefined;
};

const MAX_CHOICES = 10_000;

/** A schema, or its JSON as text. */
const SchemaOrText = z.union([jsonSchema(), text()], {
  error: `${SCHEMA_WANTED}, or its text`,
});

const formatWanted = 'an object whose type is "text", "json_object" or "json_schema"';

const ResponseFormat = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object"), schema: jsonSchema().nullish() }),
  z.object({
    type: z.literal("json_schema"),
    json_schema: z.object({
      name: anyText().nullish(),
      description: anyText().nullish(),
      schema: jsonSchema(),
      strict: flag().nullish(),
    }, { error: "an object with a schema" }).nullish(),
    schema: jsonSchema().nullish().describe("The schema itself, without json_schema around it"),
  }).refine(({ json_schema: outer, schema }) => (outer ?? schema ?? null) !== null, {
    path: ["json_schema"],
    error: "an object with a schema",
  }),
], { error: formatWanted });

const ollamaWanted = `"json", or ${SCHEMA_WANTED}`;
/** Ollama's clients send an empty string for no format. */
const OllamaFormat = z.union([z.enum(["json", ""]), z.record(z.string(), z.unknown())], {
  error: ollamaWanted,
});

const Choices = listSchema(text(), { min: 1, max: MAX_CHOICES });

const StructuredOutputs = z.object({
  json: SchemaOrText.nullish(),
  regex: text().nullish(),
  choice: Choices.nullish(),
  grammar: text().nullish(),
  json_object: flag().nullish(),
  structural_tag: notServed(),
  whitespace_pattern: notServed(),
  disable_any_whitespace: notServed(),
  disable_additional_properties: notServed(),
}, { error: "an object with one of json, regex, choice and grammar" });

export const STRUCTURED_OUTPUT = {
  response_format: ResponseFormat.nullish()
    .describe("Format of the answer; a schema is enforced whether strict or not"),
  structured_outputs: StructuredOutputs.nullish().describe(
    "Format of the answer as in vLLM: one of json, regex, choice and grammar",
  ),
  // Clients that show these fields as forms send an empty string for no value.
  guided_json: SchemaOrText.nullish().describe("Older name of structured_outputs.json"),
  guided_regex: anyText().nullish().describe("Older name of structured_outputs.regex"),
  guided_choice: Choices.nullish().describe("Older name of structured_outputs.choice"),
  guided_grammar: anyText().nullish().describe("Older name of structured_outputs.grammar"),
  grammar: anyText().nullish().describe("llama.cpp's field: a grammar in GBNF"),
  json_schema: jsonSchema().nullish().describe("llama.cpp's field: a JSON schema"),
  format: OllamaFormat.nullish().describe(
    'Format of the answer as in Ollama: "json" or a JSON schema',
  ),
};
