/**
 * The body of a request to `/responses`, OpenAI's successor to chat completions. The items of its input also form the
 * history of a stored response.
 *
 * @module
 */
import { z } from "zod";
import { InputAudioPart, MediaReference } from "./chat_message.ts";
import {
  anyText,
  cutAtFirstBad,
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
import { EffortField } from "./spellings.ts";
import { OptionalParameters } from "./tools_and_formats.ts";

const TextPart = z.object({
  type: z.enum(["input_text", "output_text", "text"]),
  text: anyText(),
});
const RefusalPart = z.object({ type: z.literal("refusal"), refusal: anyText() });
const ImagePart = z.object({
  type: z.literal("input_image"),
  image_url: MediaReference.describe("An image by reference; files by id are not supported"),
});

const FilePart = z.object({
  type: z.literal("input_file"),
  file_data: text("a media reference, or base64").nullish()
    .describe("A PDF, an image or a text file: a media reference, or base64"),
  file_url: MediaReference.nullish(),
  filename: anyText().nullish(),
}).refine(({ file_data: data, file_url: url }) => Boolean(data) !== Boolean(url), {
  error: "file_data or file_url; files by id are not supported",
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
  namespace: anyText().nullish(),
  arguments: anyText(),
});

const FunctionCallOutput = z.object({
  type: z.literal("function_call_output"),
  call_id: text("the id of a call"),
  output: Content,
});

const ReasoningText = z.object({ text: anyText() });
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

/** An item of a request's input. A message may omit its `type`. Items of unknown tools are accepted. */
export const InputItem = z.preprocess(
  (value) =>
    typeof value === "object" && value !== null && "role" in value && !("type" in value)
      ? { type: "message", ...value }
      : convertItem(value),
  TypedItem,
);

/** An item of a request's input or of a stored response's history. */
export type InputItem = z.output<typeof TypedItem>;
/** A part of an item's content. */
export type InputPart = z.output<typeof Part>;

type Fields = Readonly<Record<string, unknown>>;

/**
 * Types of calls that the client ran itself, with the name of the tool and the field that holds its input. The name is
 * `undefined` if the call itself contains it.
 */
const CLIENT_CALLS: Readonly<Record<string, readonly [name: string | undefined, field: string]>> = {
  custom_tool_call: [undefined, "input"],
  local_shell_call: ["local_shell", "action"],
  shell_call: ["shell", "action"],
  apply_patch_call: ["apply_patch", "operation"],
};

/** Types of items that are accepted unchanged. */
const OWN_TYPES: ReadonlySet<unknown> = new Set([
  "message",
  "function_call",
  "function_call_output",
  "reasoning",
  "item_reference",
  "hosted",
]);

/**
 * Converts an item to one that the schema accepts. Calls that the client ran itself become function calls with outputs.
 * Items of tools that this server does not have become `hosted`: the conversation continues without them.
 */
function convertItem(item: unknown): unknown {
  if (typeof item !== "object" || item === null) return item;
  const fields = item as Fields;
  const { type } = fields;
  if (typeof type !== "string" || type === "" || OWN_TYPES.has(type)) return item;
  const called = Object.hasOwn(CLIENT_CALLS, type) ? CLIENT_CALLS[type] : undefined;
  const callId = fields["call_id"] ?? fields["id"];
  if (called !== undefined) {
    const [name = String(fields["name"] ?? "tool"), field] = called;
    const json = JSON.stringify(field === "input" ? { input: fields[field] } : fields[field] ?? {});
    return { type: "function_call", call_id: callId, name, arguments: json };
  }
  if (Object.hasOwn(CLIENT_CALLS, type.replace(/_output$/, ""))) {
    return { type: "function_call_output", call_id: callId, output: toOutput(fields["output"]) };
  }
  return { type: "hosted", item };
}

/** Returns text and parts unchanged, and anything else as JSON. */
function toOutput(output: unknown): unknown {
  const hasParts = Array.isArray(output) &&
    output.every((part) => /^(input|output)_/.test(String((part as Fields | null)?.["type"])));
  return typeof output === "string" || hasParts ? output : JSON.stringify(output ?? "");
}

const MAX_ITEMS = 4096;
const MAX_TOP_LOGPROBS = 20;

const FunctionTool = z.object({
  type: z.literal("function"),
  name: functionName(),
  description: anyText().nullish(),
  parameters: OptionalParameters,
  strict: flag().nullish(),
});

/** A tool that only OpenAI hosts. Clients often list such tools; they are ignored. */
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
  }).describe("The message or conversation to answer"),
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
    summary: Summary.describe("Return the whole reasoning as its summary"),
    generate_summary: Summary.meta({ deprecated: true }),
  }, { error: "an object" }).nullish(),
  reasoning_effort: EffortField.describe("Chat completions' name for reasoning.effort"),
  max_output_tokens: tokenLimit(0).nullish(),
  max_tokens: tokenLimit(0).nullish().describe("Chat completions' name for max_output_tokens"),
  max_completion_tokens: tokenLimit(0).nullish().describe("Another name for max_output_tokens"),
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
