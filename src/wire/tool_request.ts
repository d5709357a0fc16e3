/**
 * The fields of a chat request that describe tools.
 *
 * @module
 */
import { z } from "zod";
import { anyText, flag, functionName, listSchema, openObject, text } from "./fields.ts";

const MAX_TOOLS = 1024;

/** The schema of a function's arguments. Only checks that it is an object; the rest is checked where it is used. */
export const Parameters = openObject("a JSON schema of an object")
  .refine(
    ({ type }) => type === undefined || [type].flat().includes("object"),
    { path: ["type"], error: '"object", as a function takes its arguments by name' },
  );

const Function = z.object({
  name: functionName(),
  description: anyText().nullish(),
  parameters: Parameters.nullish().describe("JSON schema of an object"),
  strict: flag().nullish().describe("Constrain the arguments to the schema"),
}, { error: "an object with a name" }).meta({ id: "Function" });

const FunctionTool = z.object({
  type: z.literal("function", { error: '"function"' }),
  function: Function,
}, { error: "an object with type and function" }).meta({ id: "Tool" });

/** A tool that another server would run; it is ignored. */
const HostedTool = z.object({ type: text("a type") })
  .refine(({ type }) => type !== "function", { abort: true });

/** A tool. Its function's fields may also be in the tool itself, as in the Responses API. */
const Tool = z.preprocess(
  (value) => isFlat(value) ? { type: "function", function: value } : value,
  z.union([FunctionTool, HostedTool], { error: "an object with type and function" }),
);

function isFlat(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return "name" in value && !("function" in value) && "type" in value && value.type === "function";
}

const NamedTool = z.preprocess(
  (value) => isFlat(value) ? { type: "function", function: value } : value,
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
