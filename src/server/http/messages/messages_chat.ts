/**
 * Converts a request of Anthropic's Messages API to the equivalent chat request. Only some of its tools are shown to the
 * model.
 *
 * @module
 */
import type { ChatMessage, ContentPart } from "../../../wire/chat_message.ts";
import type { ChatRequest } from "../../../wire/chat_request.ts";
import type {
  ContentBlock,
  CountTokensRequest,
  Message,
  MessagesRequest,
  MessagesTool,
  ResultBlock,
} from "../../../wire/messages.ts";
import { writeOriginalJson } from "../body/decode_json.ts";

/** Converts a request to the equivalent chat request. */
export function toChatRequest(request: MessagesRequest | CountTokensRequest): ChatRequest {
  const { tool_choice: choice } = request;
  const system = toSystem(request);
  const first: ChatMessage[] = system === "" ? [] : [{ role: "system", content: system }];
  const tools = listShownTools(request);
  const format = request.output_config?.format ?? request.output_format;
  const isParallel = choice && "disable_parallel_tool_use" in choice
    ? !choice.disable_parallel_tool_use
    : undefined;
  return {
    model: request.model,
    messages: [...first, ...listSources(request).map(({ message }) => message)],
    response_format: format && { type: "json_schema", json_schema: { schema: format.schema } },
    tools: tools.map(({ tool: { name, description, input_schema: parameters, strict } }) => ({
      type: "function",
      function: { name, description, parameters, strict },
    })),
    tool_choice: toToolChoice(request),
    parallel_tool_calls: isParallel,
    reasoning_effort: toEffort(request),
    continue_final_message: beginsAnswer(request.messages.at(-1)),
    ...("max_tokens" in request && {
      max_tokens: request.max_tokens,
      stop: request.stop_sequences,
      temperature: request.temperature,
      top_p: request.top_p,
      top_k: request.top_k,
      stream: request.stream,
    }),
  };
}

/** Returns a copy of the request with `change` applied to the texts of its documents. */
export function mapDocumentTexts<Request extends CountTokensRequest>(
  request: Request,
  change: (text: string) => string,
): Request {
  const changed = <Block extends ContentBlock | ResultBlock>(block: Block): Block => {
    if (block.type === "tool_result" && Array.isArray(block.content)) {
      return { ...block, content: block.content.map(changed) };
    }
    if (block.type !== "document" || block.source.type !== "text") return block;
    return { ...block, source: { ...block.source, data: change(block.source.data) } };
  };
  const messages = request.messages.map((message): Message =>
    message.role === "system" || typeof message.content === "string"
      ? message
      : { ...message, content: message.content.map(changed) }
  );
  return { ...request, messages };
}

/**
 * The first block of Claude Code's system prompt, which is left out. It is for billing and differs in each conversation:
 * with it, no two prompts would share a prefix.
 */
const BILLING_HEADER = /^x-anthropic-billing-header:/;

function toSystem({ system }: CountTokensRequest): string {
  if (typeof system === "string") return system;
  const texts = (system ?? []).map(({ text }) => text);
  return texts.filter((text) => !BILLING_HEADER.test(text)).join("\n\n");
}

/** Whether the model should continue the last message: an assistant message that holds only text. */
function beginsAnswer(last: Message | undefined): boolean {
  if (last?.role !== "assistant") return false;
  if (typeof last.content === "string") return last.content.trim() !== "";
  return last.content.every(({ type }) => type === "text") &&
    last.content.some((block) => block.type === "text" && block.text.trim() !== "");
}

function toEffort(
  { thinking, output_config: output }: CountTokensRequest,
): ChatRequest["reasoning_effort"] {
  if (!thinking) return undefined;
  if (thinking.type === "disabled") return "none";
  return output?.effort ?? "medium";
}

/** Maps a path in the chat request to the path of the client's field. */
export function toClientParam(
  param: string,
  request: MessagesRequest | CountTokensRequest,
): string {
  return param
    .replace(/^messages\[(\d+)\](?:\.content(?:\[(\d+)\])?)?/, (_, index, part) => {
      const position = Number(index) - (toSystem(request) === "" ? 0 : 1);
      if (position < 0) return "system";
      const { own, paths } = listSources(request)[position] ?? { own: position, paths: [] };
      const path = part === undefined ? undefined : paths[Number(part)];
      return `messages[${own}].content${path ?? ""}`;
    })
    .replace(/^response_format\.json_schema/, "output_config.format")
    .replace(
      /^tools\[(\d+)\]\.function\./,
      (_, index) => `${listShownTools(request)[index]!.path}.`,
    )
    .replace(/^(tools|messages)(\[.*)\.parameters/, "$1$2.input_schema")
    .replace(/^tool_choice\.function\./, "tool_choice.")
    .replace(/^stop\b/, "stop_sequences");
}

function toToolChoice({ tool_choice: choice }: CountTokensRequest): ChatRequest["tool_choice"] {
  switch (choice?.type) {
    case "any":
      return "required";
    case "tool":
      return { type: "function", function: { name: choice.name } };
    default:
      return choice?.type;
  }
}

/** A content part, and the path of the client's block that it comes from. */
interface PartAtPath {
  readonly part: ContentPart;
  /** Path within the message: `[1]`, or `[1].content[0]` inside a tool result. */
  readonly path: string;
}

/** A chat message, and the paths of its parts in the client's message. */
interface Source {
  readonly message: ChatMessage;
  readonly paths: readonly string[];
}

/**
 * Lists the messages of the chat, each with the index of the client's message that it comes from. Leaves out system
 * messages that were valid only until a later user message.
 */
function listSources({ messages }: CountTokensRequest): (Source & { readonly own: number })[] {
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  return messages.flatMap((message, own) => {
    const isCleared = message.role === "system" && message.clear_at === "next_user_message" &&
      own < lastUser;
    return isCleared ? [] : toMessages(message).map((source) => ({ ...source, own }));
  });
}

/** Converts a message. Its tool results become messages of their own, which come before the rest of it. */
function toMessages(request: Message): Source[] {
  if (request.role === "system") return toSystemMessages(request);
  const { role, content } = request;
  if (typeof content === "string") return [{ message: { role, content }, paths: [] }];
  const results = content.flatMap((block, index): Source[] => {
    if (block.type !== "tool_result") return [];
    const located = toResult(block, index);
    const parts = located.map(({ part }) => part);
    return [{
      message: {
        role: "tool",
        tool_call_id: block.tool_use_id,
        content: parts.length === 0 ? "" : parts,
      },
      paths: located.map(({ path }) => path),
    }];
  });
  const located = content.flatMap((block, index) => toPart(block, `[${index}]`));
  const calls = content.flatMap((block) =>
    block.type === "tool_use"
      ? [{
        id: block.id,
        type: "function" as const,
        function: { name: block.name, arguments: writeOriginalJson(block.input) },
      }]
      : []
  );
  const thought = content.flatMap((block) => block.type === "thinking" ? [block.thinking] : []);
  if (located.length === 0 && calls.length === 0 && thought.length === 0) return results;
  const message: ChatMessage = {
    role,
    content: located.length > 0 ? located.map(({ part }) => part) : null,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(thought.length > 0 && { reasoning_content: thought.join("\n") }),
  };
  return [...results, { message, paths: located.map(({ path }) => path) }];
}

/** Converts a system message. A message that only changes the tools is left out. */
function toSystemMessages({ content = "" }: Extract<Message, { role: "system" }>): Source[] {
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  const located = blocks.flatMap((block, index): PartAtPath[] =>
    block.type === "text" && block.text !== "" ? [{ part: block, path: `[${index}]` }] : []
  );
  if (located.length === 0) return [];
  const message: ChatMessage = { role: "system", content: located.map(({ part }) => part) };
  return [{ message, paths: located.map(({ path }) => path) }];
}

function toResult(
  { content, is_error: failed }: Extract<ContentBlock, { type: "tool_result" }>,
  index: number,
): PartAtPath[] {
  const parts = typeof content === "string"
    ? (content === ""
      ? []
      : [{ part: { type: "text" as const, text: content }, path: `[${index}]` }])
    : (content ?? []).flatMap((block, at) => toPart(block, `[${index}].content[${at}]`));
  if (!failed) return parts;
  const text = parts.length === 0 ? "Error" : "Error:";
  return [{ part: { type: "text", text }, path: `[${index}]` }, ...parts];
}

function toPart(block: ContentBlock | ResultBlock, path: string): PartAtPath[] {
  const textPart = (text: string) => ({ part: { type: "text" as const, text }, path });
  if (block.type === "text") return [{ part: block, path }];
  if (block.type === "document") return toDocumentParts(block, path);
  if (block.type === "search_result") {
    return [block.title, block.source, ...block.content.map(({ text }) => text)].map(textPart);
  }
  if (block.type === "tool_reference") return [textPart(`Tool loaded: ${block.tool_name}`)];
  if (block.type !== "image") return [];
  const { source } = block;
  const url = source.type === "url"
    ? source.url
    : `data:${source.media_type};base64,${source.data}`;
  return [{ part: { type: "image_url", image_url: url }, path }];
}

/** Converts a document: its title and context, then its text. */
function toDocumentParts(
  { source, title, context }: Extract<ContentBlock, { type: "document" }>,
  path: string,
): PartAtPath[] {
  const textPart = (text: string) => ({ part: { type: "text" as const, text }, path });
  const head = [title, context].flatMap((text) => text ? [textPart(text)] : []);
  if (source.type === "text") return [...head, textPart(source.data)];
  if (source.type !== "content") {
    const data = source.type === "url" ? source.url : source.data;
    return [...head, { part: { type: "file", file: { file_data: data } }, path }];
  }
  const { content } = source;
  if (typeof content === "string") return [...head, textPart(content)];
  const inner = content.flatMap((each, at) => toPart(each, `${path}.source.content[${at}]`));
  return [...head, ...inner];
}

/** A tool, and the path of the client's field that defines it. */
interface ToolAtPath {
  readonly tool: MessagesTool;
  readonly path: string;
}

/**
 * Lists the tools that are shown to the model: the tools that the request and its messages define, without those that a
 * message removes, and without tools with `defer_loading` that the conversation has not named yet.
 */
function listShownTools({ tools, messages }: CountTokensRequest): readonly ToolAtPath[] {
  const all = (tools ?? []).flatMap((tool, index): ToolAtPath[] =>
    isClientTool(tool) ? [{ tool, path: `tools[${index}]` }] : []
  );
  const names = new Set(
    all.flatMap(({ tool: { name, defer_loading: waits } }) => waits ? [] : [name]),
  );
  for (const [index, message] of messages.entries()) {
    for (const change of findChanges(message, `messages[${index}].content`)) {
      if (change.isRemoval) names.delete(change.name);
      else names.add(change.name);
      if (change.defined) all.push(change.defined);
    }
  }
  return all.filter(({ tool: { name } }) => names.has(name));
}

type ListedTool = NonNullable<CountTokensRequest["tools"]>[number];

/** Whether the client runs a tool itself. */
function isClientTool(tool: ListedTool): tool is MessagesTool {
  return "input_schema" in tool;
}

/** Lists the types of the tools that Anthropic's own servers would run. */
export function listHostedTools({ tools }: CountTokensRequest): string[] {
  return (tools ?? []).flatMap((tool) => isClientTool(tool) ? [] : [tool.type]);
}

/** A change of the tools that are shown to the model. */
interface ToolChange {
  readonly name: string;
  readonly isRemoval?: boolean;
  readonly defined?: ToolAtPath;
}

function findChanges({ role, content }: Message, path: string): ToolChange[] {
  if (content === undefined || typeof content === "string") return [];
  if (role !== "system") {
    return content.flatMap((block) =>
      block.type === "tool_result" && Array.isArray(block.content)
        ? block.content.flatMap((part) =>
          part.type === "tool_reference" ? [{ name: part.tool_name }] : []
        )
        : []
    );
  }
  return content.flatMap((block, at): ToolChange[] => {
    if (block.type === "text") return [];
    const { tool } = block;
    if (tool.type === "tool_reference") {
      return [{ name: tool.name, isRemoval: block.type === "tool_removal" }];
    }
    const { definition } = tool;
    const defined = { tool: definition, path: `${path}[${at}].tool.definition` };
    return [{ name: definition.name, defined }];
  });
}
