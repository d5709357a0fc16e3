/**
 * The body of a request to `/responses`, OpenAI's successor of chat completions.
 *
 * @module
 */
import { z } from "zod";
import {
  anyText,
  flag,
  functionName,
  integerFrom,
  jsonSchema,
  listSchema,
  notServed,
  numberFrom,
  openObject,
  text,
  tokenLimit,
} from "./fields.ts";
import { ChatRequest } from "./chat_request.ts";
import { InputItem } from "./responses_items.ts";
import { EffortField } from "./spellings.ts";
import { Parameters } from "./tool_request.ts";

const MAX_ITEMS = 4096;
const MAX_TOP_LOGPROBS = 20;

const FunctionTool = z.object({
  type: z.literal("function"),
  name: functionName(),
  description: anyText().nullish(),
  parameters: Parameters.nullish(),
  strict: flag().nullish(),
});

/** Clients often list tools that only OpenAI hosts. They are ignored. */
const HostedTool = z.object({ type: text("function, or the name of a hosted tool") });
const GroupedTool = z.union([
  FunctionTool,
  HostedTool.refine(({ type }) => type !== "function" && type !== "namespace"),
], { error: "a tool with a type, and a name if it is a function" });

/** The format in which Codex sends the tools of an MCP server. */
const NamespaceTool = z.object({
  type: z.literal("namespace"),
  name: functionName(),
  tools: listSchema(GroupedTool, { max: 1024 }),
});
const Tool = z.union([NamespaceTool, GroupedTool], {
  error: "a tool with a type, and a name if it is a function or a namespace",
});

const choiceWanted = '"auto", "none", "required", or an object that names tools';
const ToolChoice = z.union([
  z.enum(["auto", "none", "required"]),
  z.object({ type: z.literal("function"), name: functionName(), namespace: anyText().nullish() }),
  z.object({
    type: z.literal("allowed_tools"),
    mode: z.enum(["auto", "required"], { error: '"auto" or "required"' }),
    tools: listSchema(
      z.object({ type: text(), name: functionName().optional(), namespace: anyText().nullish() }),
      { min: 1 },
    ),
  }),
  HostedTool.refine(({ type }) => type !== "function" && type !== "allowed_tools"),
], { error: choiceWanted });

const Format = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object") }),
  z.object({
    type: z.literal("json_schema"),
    name: anyText().nullish(),
    description: anyText().nullish(),
    schema: jsonSchema(),
    strict: flag().nullish(),
  }),
], { error: 'an object whose type is "text", "json_object" or "json_schema"' });

const {
  frequency_penalty,
  ignore_eos,
  include_stop_str_in_output,
  logit_bias,
  min_p,
  min_tokens,
  presence_penalty,
  repetition_penalty,
  seed,
  skip_special_tokens,
  stop,
  stop_token_ids,
  structured_outputs,
  top_k,
} = ChatRequest.shape;

/** Fields of chat requests that are accepted here too, as in vLLM. */
export const GENERATION_FIELDS = {
  ...{ frequency_penalty, presence_penalty, repetition_penalty, logit_bias, top_k, min_p, seed },
  ...{ stop, stop_token_ids, include_stop_str_in_output, skip_special_tokens },
  ...{ min_tokens, ignore_eos, structured_outputs },
};

const summaryWanted = "auto, concise or detailed";
const Summary = z.enum(["auto", "concise", "detailed"], { error: summaryWanted }).nullish();

/** A request for a response. `null` counts as absent; unknown fields are ignored. */
export const ResponsesRequest = z.object({
  model: text("the name of the loaded model"),
  input: z.union([z.string(), listSchema(InputItem, { max: MAX_ITEMS })], {
    error: "a string or an array of input items",
  }).describe("What the model is to answer"),
  instructions: anyText().nullish().describe("Inserted as the first system message"),
  previous_response_id: text("the id of a stored response").nullish()
    .describe("The response to continue from"),
  tools: listSchema(Tool, { max: 1024 }).nullish().describe("Functions that the model may call"),
  tool_choice: ToolChoice.nullish(),
  parallel_tool_calls: flag().nullish(),
  text: z.object({ format: Format.nullish() }, { error: "an object" }).nullish()
    .describe("Format of the answer"),
  reasoning: z.object({
    effort: EffortField,
    summary: Summary.describe("Return the whole thought as its summary"),
    generate_summary: Summary.meta({ deprecated: true }),
  }, { error: "an object" }).nullish(),
  reasoning_effort: EffortField.describe("Chat completions' name for reasoning.effort"),
  max_output_tokens: tokenLimit(0).nullish(),
  max_tokens: tokenLimit(0).nullish().describe("Chat completions' name for max_output_tokens"),
  max_completion_tokens: tokenLimit(0).nullish().describe("Another"),
  temperature: numberFrom(0, 2).nullish(),
  top_p: numberFrom(0, 1).nullish(),
  ...GENERATION_FIELDS,
  top_logprobs: integerFrom(0, MAX_TOP_LOGPROBS).nullish(),
  truncation: z.enum(["auto", "disabled"], { error: '"auto" or "disabled"' }).nullish()
    .describe("auto leaves out the oldest turns if a conversation is too long"),
  include: listSchema(text()).nullish(),
  metadata: z.record(z.string(), anyText(), { error: "an object of strings" }).nullish(),
  store: flag().nullish().describe("Keep the response in the server's memory; default true"),
  stream: flag().nullish(),
  chat_template_kwargs: openObject("an object").nullish(),
  user: anyText().nullish(),
  background: notServed("send the request without it and wait"),
  conversation: notServed("use previous_response_id"),
  prompt: notServed("send instructions and input"),
}, { error: "a JSON object" }).refine(
  ({ input, instructions, previous_response_id: previous }) =>
    input.length > 0 || Boolean(instructions) || Boolean(previous),
  {
    path: ["input"],
    error: "at least one item, unless instructions or previous_response_id are set",
  },
).meta({ id: "ResponsesRequest" });

export type ResponsesRequest = z.output<typeof ResponsesRequest>;
export type FunctionTool = z.output<typeof FunctionTool>;
