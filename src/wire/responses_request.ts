/**
 * The body of a request to `/responses`, OpenAI's successor of chat completions.
 *
 * @module
 */
import { z } from "zod";
import {
  cutAtFirstBad,
  flag,
  integerFrom,
  listSchema,
  numberFrom,
  openObject,
  text,
  tokenLimit,
} from "./fields.ts";
import { ChatRequest } from "./chat_request.ts";
import { InputAudioPart, MediaReference } from "./content_part.ts";
import { readHostedItem } from "./hosted_items.ts";
import { EffortField } from "./spellings.ts";
import { Parameters } from "./tool_request.ts";

const MAX_ITEMS = 4096;
const MAX_TOP_LOGPROBS = 20;

const words = () => z.string({ error: "a string" });

const TextPart = z.object({
  type: z.enum(["input_text", "output_text", "text"]),
  text: words(),
});
const RefusalPart = z.object({ type: z.literal("refusal"), refusal: words() });
const ImagePart = z.object({
  type: z.literal("input_image"),
  image_url: MediaReference.describe("An image by reference; files by id are not served"),
});

const FilePart = z.object({
  type: z.literal("input_file"),
  file_data: text("a media reference, or base64").nullish()
    .describe("A PDF, an image or a text file: a media reference, or base64"),
  file_url: MediaReference.nullish(),
  filename: words().nullish(),
}).refine(({ file_data: data, file_url: url }) => Boolean(data) !== Boolean(url), {
  error: "file_data or file_url; files by id are not served",
});

const Part = z.discriminatedUnion(
  "type",
  [TextPart, RefusalPart, ImagePart, InputAudioPart, FilePart],
  {
    error: "a content part whose type is one of input_text, output_text, refusal, input_image, " +
      "input_audio, input_file",
  },
);

const contentWanted = "a string or an array of content parts";
const Content = cutAtFirstBad(
  Part,
  z.union([z.string(), z.array(Part)], { error: contentWanted }),
);

const MESSAGE_ROLES = ["system", "developer", "user", "assistant"] as const;

const Message = z.object({
  type: z.literal("message").optional(),
  role: z.enum(MESSAGE_ROLES, { error: `one of ${MESSAGE_ROLES.join(", ")}` }),
  content: Content,
});

const FunctionCall = z.object({
  type: z.literal("function_call"),
  call_id: text("the id of a call"),
  name: text("the name of a function"),
  namespace: words().nullish(),
  arguments: words(),
});

const FunctionCallOutput = z.object({
  type: z.literal("function_call_output"),
  call_id: text("the id of a call"),
  output: Content,
});

const ReasoningText = z.object({ text: words() });
const Reasoning = z.object({
  type: z.literal("reasoning"),
  summary: z.array(ReasoningText).nullish(),
  content: z.array(ReasoningText).nullish(),
});

const ItemReference = z.object({
  type: z.literal("item_reference"),
  id: text("the id of an item of a stored response"),
});

/** An item of a tool that this server does not have. */
const HostedItem = z.object({
  type: z.literal("hosted"),
  item: z.looseObject({ type: text() }),
});

const TypedItem = z.discriminatedUnion(
  "type",
  [
    Message.extend({ type: z.literal("message") }),
    FunctionCall,
    FunctionCallOutput,
    Reasoning,
    ItemReference,
    HostedItem,
  ],
  {
    error: "an item whose type is one of message, function_call, function_call_output, " +
      "reasoning, item_reference",
  },
);

/** An item of the input. A message may omit its `type`. Items of tools that this server does not have are accepted. */
const Item = z.preprocess(
  (value) =>
    typeof value === "object" && value !== null && "role" in value && !("type" in value)
      ? { type: "message", ...value }
      : readHostedItem(value),
  TypedItem,
);

const nameWanted = "a name of 1 to 128 letters, digits, _ - . : /";
const Name = z.string({ error: nameWanted }).regex(/^[\w.:/-]{1,128}$/, { error: nameWanted });

const FunctionTool = z.object({
  type: z.literal("function"),
  name: Name,
  description: words().nullish(),
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
  name: Name,
  tools: listSchema(GroupedTool, { max: 1024 }),
});
const Tool = z.union([NamespaceTool, GroupedTool], {
  error: "a tool with a type, and a name if it is a function or a namespace",
});

const choiceWanted = '"auto", "none", "required", or an object that names tools';
const ToolChoice = z.union([
  z.enum(["auto", "none", "required"]),
  z.object({ type: z.literal("function"), name: Name, namespace: words().nullish() }),
  z.object({
    type: z.literal("allowed_tools"),
    mode: z.enum(["auto", "required"], { error: '"auto" or "required"' }),
    tools: listSchema(
      z.object({ type: text(), name: Name.optional(), namespace: words().nullish() }),
      { min: 1 },
    ),
  }),
  HostedTool.refine(({ type }) => type !== "function" && type !== "allowed_tools"),
], { error: choiceWanted });

const schemaWanted = "a JSON schema: an object, true or false";
const Schema = z.unknown().refine(
  (value) => typeof value === "boolean" || (typeof value === "object" && value !== null),
  { error: schemaWanted },
).meta({ type: ["object", "boolean"] });

const Format = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object") }),
  z.object({
    type: z.literal("json_schema"),
    name: words().nullish(),
    description: words().nullish(),
    schema: Schema,
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

const notServed = (instead: string) =>
  z.union([z.null(), z.literal(false)], {
    error: `no value, because it is not supported; ${instead}`,
  })
    .optional();

/** A request for a response. `null` counts as absent; unknown fields are ignored. */
export const ResponsesRequest = z.object({
  model: text("the name of the loaded model"),
  input: z.union([z.string(), listSchema(Item, { max: MAX_ITEMS })], {
    error: "a string or an array of input items",
  }).describe("What the model is to answer"),
  instructions: words().nullish().describe("Inserted as the first system message"),
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
  metadata: z.record(z.string(), words(), { error: "an object of strings" }).nullish(),
  store: flag().nullish().describe("Keep the response in the server's memory; default true"),
  stream: flag().nullish(),
  chat_template_kwargs: openObject("an object").nullish(),
  user: words().nullish(),
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
/** An item of a request's input or of a stored response's history. */
export type InputItem = z.output<typeof TypedItem>;
/** A part of an item's content. */
export type InputPart = z.output<typeof Part>;
