/**
 * The requests to `/messages` and `/messages/count_tokens`, the chat endpoints of Anthropic's API, and their responses.
 *
 * @module
 */
import { z } from "zod";
import {
  anyText,
  cutAtFirstBad,
  flag,
  integerFrom,
  listSchema,
  numberFrom,
  openObject,
  stopStrings,
  text,
} from "./fields.ts";
import { Parameters } from "./tools_and_formats.ts";

const MAX_MESSAGES = 4096;

const TextBlock = z.object({ type: z.literal("text"), text: anyText() });

const ImageSource = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("base64"),
    media_type: anyText(),
    data: text("base64-encoded bytes of an image"),
  }),
  z.object({ type: z.literal("url"), url: text("the URL of an image") }),
], { error: 'an object whose type is "base64" or "url"' });
const ImageBlock = z.object({ type: z.literal("image"), source: ImageSource });

const NoCitations = z.object({
  enabled: z.literal(false, { error: "false, because citations are not supported" }).nullish(),
}, { error: "an object" }).nullish();

const DocumentSource = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("text"),
    media_type: z.literal("text/plain", { error: '"text/plain"' }).nullish(),
    data: anyText(),
  }),
  z.object({
    type: z.literal("base64"),
    media_type: anyText().nullish(),
    data: text("base64-encoded bytes of a PDF"),
  }),
  z.object({ type: z.literal("url"), url: text("the URL of a PDF") }),
  z.object({
    type: z.literal("content"),
    content: z.union([
      z.string(),
      z.array(z.discriminatedUnion("type", [TextBlock, ImageBlock])),
    ], { error: "a string or an array of text and image blocks" }),
  }),
], { error: 'an object whose type is "text", "base64", "url" or "content"' });
const DocumentBlock = z.object({
  type: z.literal("document"),
  source: DocumentSource,
  title: anyText().nullish(),
  context: anyText().nullish(),
  citations: NoCitations,
});

const SearchResultBlock = z.object({
  type: z.literal("search_result"),
  source: anyText(),
  title: anyText(),
  content: z.array(TextBlock, { error: "an array of text blocks" }),
  citations: NoCitations,
});

const ToolUseBlock = z.object({
  type: z.literal("tool_use"),
  id: text("the id of a call"),
  name: text("the name of a tool"),
  input: openObject("an object"),
});

/** The name of a tool with `defer_loading` in a result: from then on, the model may call the tool. */
const ToolReferenceBlock = z.object({
  type: z.literal("tool_reference"),
  tool_name: text("the name of a tool"),
});

const ResultPart = z.discriminatedUnion(
  "type",
  [TextBlock, ImageBlock, DocumentBlock, SearchResultBlock, ToolReferenceBlock],
  {
    error: "a block whose type is one of text, image, document, search_result, tool_reference",
  },
);
const ToolResultBlock = z.object({
  type: z.literal("tool_result"),
  tool_use_id: text("the id of a call"),
  content: z.union([z.string(), z.array(ResultPart)], { error: "a string or an array of blocks" })
    .nullish(),
  is_error: flag().nullish(),
});

const ThinkingBlock = z.object({ type: z.literal("thinking"), thinking: anyText() });
const RedactedBlock = z.object({ type: z.literal("redacted_thinking") });

/** A block of a feature that only Anthropic's servers have, such as a hosted tool. The model does not see it. */
const HostedBlock = z.object({ type: z.literal("hosted") });
const HOSTED_BLOCKS =
  /^(server_tool_use|(?!tool_result$)\w+_tool_result|mcp_tool_use|container_upload|compaction|fallback)$/;

/** Replaces a block of a feature that only Anthropic's servers have by a `hosted` block, which the schema accepts. */
function readHostedBlock(block: unknown): unknown {
  const type = typeof block === "object" && block !== null && "type" in block ? block.type : "";
  return typeof type === "string" && HOSTED_BLOCKS.test(type) ? { type: "hosted" } : block;
}

const Block = z.preprocess(
  readHostedBlock,
  z.discriminatedUnion(
    "type",
    [
      TextBlock,
      ImageBlock,
      DocumentBlock,
      SearchResultBlock,
      ToolUseBlock,
      ToolResultBlock,
      ThinkingBlock,
      RedactedBlock,
      HostedBlock,
    ],
    {
      error: "a content block whose type is one of text, image, document, search_result, " +
        "tool_use, tool_result, thinking, redacted_thinking",
    },
  ),
);

/** A tool that Anthropic's servers would run; it is ignored here. */
const HostedTool = z.object({ type: text("a type"), name: anyText().nullish() })
  .refine(({ type }) => type !== "custom", { abort: true });

const OwnTool = z.object({
  type: z.literal("custom", { error: '"custom"' }).nullish(),
  name: text("the name of a tool"),
  description: anyText().nullish(),
  input_schema: Parameters,
  strict: flag().nullish().describe("Constrain the arguments to the schema"),
  defer_loading: flag().nullish()
    .describe("Leave the tool out until a tool_reference or tool_addition names it"),
});

const Tool = z.union([OwnTool, HostedTool], {
  error: "a tool with a name and an input_schema, or the type of a hosted tool",
});

const NamedTool = z.object({
  type: z.literal("tool_reference"),
  name: text("the name of a tool"),
}, { error: "an object whose type is tool_reference, with the name of a tool" });

const ToolAddition = z.object({
  type: z.literal("tool_addition"),
  tool: z.discriminatedUnion("type", [
    NamedTool,
    z.object({ type: z.literal("tool_definition"), definition: OwnTool }),
  ], { error: "an object whose type is tool_reference or tool_definition" }),
});
const ToolRemoval = z.object({ type: z.literal("tool_removal"), tool: NamedTool });

const SystemBlock = z.discriminatedUnion("type", [TextBlock, ToolAddition, ToolRemoval], {
  error: "a block whose type is one of text, tool_addition, tool_removal",
});

const contentWanted = "a string or an array of content blocks";
const Turn = z.object({
  role: z.enum(["user", "assistant"]),
  content: cutAtFirstBad(Block, z.union([z.string(), z.array(Block)], { error: contentWanted })),
});
const SystemMessage = z.object({
  role: z.literal("system"),
  content: cutAtFirstBad(
    SystemBlock,
    z.union([z.string(), z.array(SystemBlock)], { error: contentWanted }),
  ).optional(),
  clear_at: z.enum(["next_user_message", "never"], { error: '"next_user_message" or "never"' })
    .nullish().describe("next_user_message leaves the message out once a user message follows it"),
});
const Message = z.discriminatedUnion("role", [Turn, SystemMessage], {
  error: "a message object whose role is user, assistant or system",
});

const ToolChoice = z.discriminatedUnion("type", [
  z.object({ type: z.literal("auto"), disable_parallel_tool_use: flag().nullish() }),
  z.object({ type: z.literal("any"), disable_parallel_tool_use: flag().nullish() }),
  z.object({
    type: z.literal("tool"),
    name: text("the name of a tool"),
    disable_parallel_tool_use: flag().nullish(),
  }),
  z.object({ type: z.literal("none") }),
], { error: "an object whose type is one of auto, any, tool, none" });

const OutputFormat = z.object({
  type: z.literal("json_schema", { error: '"json_schema"' }),
  schema: z.record(z.string(), z.unknown(), { error: "a JSON schema of an object" }),
}, { error: "an object with type and schema" });

const EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const;
const OutputConfig = z.object({
  format: OutputFormat.nullish(),
  effort: z.enum(EFFORTS, { error: `one of ${EFFORTS.join(", ")}` }).nullish()
    .describe("How much to think, if thinking is on"),
}, { error: "an object" });

const notServed = (instead: string) =>
  z.union([z.null(), z.array(z.unknown()).max(0)], {
    error: `no value, because it is not supported; ${instead}`,
  }).optional();

/** Fields that both endpoints share. */
const PROMPT_FIELDS = {
  model: text("the name of the loaded model"),
  messages: listSchema(Message, { min: 1, max: MAX_MESSAGES }),
  system: z.union([z.string(), z.array(TextBlock)], {
    error: "a string or an array of text blocks",
  }).nullish(),
  tools: listSchema(Tool, { max: 1024 }).nullish(),
  tool_choice: ToolChoice.nullish(),
  thinking: z.object({
    type: z.enum(["enabled", "disabled", "adaptive"], {
      error: "enabled, disabled or adaptive",
    }),
  }, { error: "an object" }).nullish(),
  output_config: OutputConfig.nullish().describe("Format of the answer"),
  output_format: OutputFormat.nullish()
    .meta({ deprecated: true, description: "The older name of output_config.format" }),
  mcp_servers: notServed("call them yourself and send their tools"),
  container: notServed("run code yourself, as a tool"),
};

/** A request for a message. `null` counts as absent; unknown fields are ignored. */
export const MessagesRequest = z.object({
  ...PROMPT_FIELDS,
  max_tokens: integerFrom(0).describe(
    "Maximum number of tokens of the answer; 0 only computes the prompt and caches it for requests that begin with it",
  ),
  stop_sequences: stopStrings().nullish(),
  stream: flag().nullish(),
  temperature: numberFrom(0, 1).nullish(),
  top_p: numberFrom(0, 1).nullish(),
  top_k: integerFrom(0).nullish(),
  metadata: z.unknown().optional(),
}, { error: "a JSON object" }).meta({ id: "MessagesRequest" });

/** A request to count the tokens of a prompt. */
export const CountTokensRequest = z.object(PROMPT_FIELDS, { error: "a JSON object" })
  .meta({ id: "CountTokensRequest" });

export type MessagesRequest = z.output<typeof MessagesRequest>;
export type CountTokensRequest = z.output<typeof CountTokensRequest>;
/** A block of a message's content. */
export type ContentBlock = z.output<typeof Block>;
/** A block within a tool's result. */
export type ResultBlock = z.output<typeof ResultPart>;
export type Message = z.output<typeof Message>;
export type MessagesTool = z.output<typeof OwnTool>;

const OutputBlock = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() }),
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
]).meta({ id: "MessageBlock" });

const StopReason = z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use"]);

export const MessageObject = z.object({
  id: z.string(),
  type: z.literal("message"),
  role: z.literal("assistant"),
  model: z.string(),
  content: z.array(OutputBlock),
  stop_reason: StopReason.nullable(),
  stop_sequence: z.string().nullable(),
  usage: z.object({
    input_tokens: integerFrom(0).describe(
      "Tokens of the prompt, not counting cache_read_input_tokens",
    ),
    cache_creation_input_tokens: integerFrom(0),
    cache_read_input_tokens: integerFrom(0),
    output_tokens: integerFrom(0),
  }),
}).meta({ id: "Message" });

/** An event of a stream. */
export const MessageEvent = z.looseObject({ type: z.string() }).meta({ id: "MessageEvent" });

/** The number of tokens of a prompt. */
export const TokenCount = z.object({ input_tokens: integerFrom(0) }).meta({ id: "TokenCount" });

export type MessageObject = z.output<typeof MessageObject>;
export type MessageBlock = z.output<typeof OutputBlock>;
