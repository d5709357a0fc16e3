/**
 * Converts a request of the Responses API to the equivalent chat request, and maps the names of its functions.
 *
 * @module
 */
import type { ChatMessage, ContentPart } from "../../../wire/chat_message.ts";
import { type ChatRequest, readMaxTokens } from "../../../wire/chat_request.ts";
import {
  type FunctionTool,
  GENERATION_FIELDS,
  type InputItem,
  type InputPart,
  type ResponsesRequest,
} from "../../../wire/responses_request.ts";
import { HearthError } from "../../../base/errors.ts";

/** Returns a request's input as items. */
export function toItems({ input }: ResponsesRequest): readonly InputItem[] {
  return typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
}

/**
 * Converts a request to a chat request.
 *
 * @param items the whole conversation. References to items are already replaced by the items.
 * @throws {HearthError} `invalid_value` when `tool_choice` requires a hosted tool.
 */
export function toChatRequest(
  request: ResponsesRequest,
  items: readonly InputItem[],
): ChatRequest {
  const { instructions, include, top_logprobs: topLogprobs } = request;
  const first: ChatMessage[] = instructions ? [{ role: "system", content: instructions }] : [];
  const wantsLogprobs = (topLogprobs ?? 0) > 0 ||
    (include ?? []).includes("message.output_text.logprobs");
  return {
    model: request.model,
    messages: [...first, ...toMessages(items).map(({ message }) => message)],
    max_tokens: readMaxTokens(request),
    temperature: request.temperature,
    top_p: request.top_p,
    ...toGenerationFields(request),
    ...(wantsLogprobs && { logprobs: true, top_logprobs: topLogprobs ?? 0 }),
    response_format: toResponseFormat(request),
    tools: listFunctions(request).map((named) => {
      const { description, parameters, strict } = named.tool;
      return {
        type: "function",
        function: { name: toShownName(named), description, parameters, strict },
      };
    }),
    tool_choice: toToolChoice(request),
    parallel_tool_calls: request.parallel_tool_calls,
    reasoning_effort: request.reasoning?.effort ?? request.reasoning_effort,
    chat_template_kwargs: request.chat_template_kwargs,
    stream: request.stream,
  };
}

function toGenerationFields(
  request: ResponsesRequest,
): Pick<ResponsesRequest, keyof typeof GENERATION_FIELDS> {
  const names = Object.keys(GENERATION_FIELDS) as (keyof typeof GENERATION_FIELDS)[];
  return Object.fromEntries(names.map((name) => [name, request[name]]));
}

interface Source {
  readonly message: ChatMessage;
  /** Index of the item that holds the message's content, or of its first item if it has no content. */
  position: number;
}

/** Converts items to messages. Calls and reasoning become part of the adjacent assistant message. */
function toMessages(items: readonly InputItem[]): Source[] {
  const sources: Source[] = [];
  let assistant: Source | undefined;
  const assistantMessage = (position: number): ChatMessage => {
    if (assistant === undefined) {
      assistant = { message: { role: "assistant", content: null }, position };
      sources.push(assistant);
    }
    return assistant.message;
  };
  for (const [position, item] of items.entries()) {
    switch (item.type) {
      case "message": {
        const content = toContent(item.content);
        if (item.role !== "assistant") {
          assistant = undefined;
          sources.push({ message: { role: item.role, content }, position });
          break;
        }
        if (assistant?.message.content) assistant = undefined;
        assistantMessage(position).content = content;
        assistant!.position = position;
        break;
      }
      case "reasoning": {
        // If a summary was requested, this server sent the whole reasoning as the summary.
        const parts = item.content?.length ? item.content : item.summary ?? [];
        assistant = undefined;
        const thought = parts.map(({ text }) => text).join("\n");
        if (thought !== "") assistantMessage(position).reasoning_content = thought;
        break;
      }
      case "function_call": {
        const message = assistantMessage(position);
        const { call_id: id, arguments: json } = item;
        message.tool_calls = [
          ...message.tool_calls ?? [],
          { id, type: "function", function: { name: toShownName(item), arguments: json } },
        ];
        break;
      }
      case "function_call_output":
        assistant = undefined;
        sources.push({
          message: { role: "tool", tool_call_id: item.call_id, content: toContent(item.output) },
          position,
        });
        break;
      case "hosted":
        break;
      case "item_reference":
        throw new HearthError("inference_failed", "An item's reference was not resolved.");
    }
  }
  return sources;
}

/** Returns a copy of an item with `change` applied to the references of its images, sounds and files. */
export function mapMedia(item: InputItem, change: (reference: string) => string): InputItem {
  const changePart = (part: InputPart): InputPart => {
    if (part.type === "input_image") return { ...part, image_url: change(part.image_url) };
    if (part.type === "input_audio") {
      const { data, format } = part.input_audio;
      return { ...part, input_audio: { data: change(data), format } };
    }
    if (part.type !== "input_file" || !part.file_data) return part;
    return { ...part, file_data: change(part.file_data) };
  };
  const changeAll = (content: string | InputPart[]) =>
    typeof content === "string" ? content : content.map(changePart);
  if (item.type === "message") return { ...item, content: changeAll(item.content) };
  if (item.type === "function_call_output") return { ...item, output: changeAll(item.output) };
  return item;
}

function toContent(content: string | readonly InputPart[]): string | ContentPart[] {
  if (typeof content === "string") return content;
  return content.map((part): ContentPart => {
    switch (part.type) {
      case "refusal":
      case "input_audio":
        return part;
      case "input_image":
        return { type: "image_url", image_url: part.image_url };
      case "input_file": {
        const { file_data: data, file_url: url, filename } = part;
        return { type: "file", file: { file_data: (data || url)!, filename } };
      }
      default:
        return { type: "text", text: part.text };
    }
  });
}

function toToolChoice(request: ResponsesRequest): ChatRequest["tool_choice"] {
  const { tool_choice: choice } = request;
  if (choice === null || choice === undefined || typeof choice === "string") {
    const isServed = choice !== "required" || listFunctions(request).length > 0;
    if (!isServed) throw hostedToolError(listHostedTools(request)[0] ?? "none");
    return choice;
  }
  if (!("tools" in choice)) {
    if (!("name" in choice)) throw hostedToolError(choice.type);
    return { type: "function", function: { name: toShownName(choice) } };
  }
  const hosted = choice.tools.find(({ type }) => type !== "function");
  if (hosted !== undefined) throw hostedToolError(hosted.type);
  const tools = choice.tools.map(({ name = "", namespace }) => ({
    type: "function" as const,
    function: { name: toShownName({ name, namespace }) },
  }));
  return { type: "allowed_tools", allowed_tools: { mode: choice.mode, tools } };
}

function hostedToolError(type: string): HearthError {
  return new HearthError(
    "invalid_value",
    "tool_choice: want a function among the tools, saw a choice that needs the tool " +
      `${JSON.stringify(type.slice(0, 40))}, which this server does not have.`,
    { param: "tool_choice" },
  );
}

function toResponseFormat({ text }: ResponsesRequest): ChatRequest["response_format"] {
  const format = text?.format;
  if (format?.type !== "json_schema") return format;
  const { name, description, schema, strict } = format;
  return { type: "json_schema", json_schema: { name, description, schema, strict } };
}

/**
 * Maps a path in the chat request to the path of the client's field.
 *
 * @param options.items all items of the chat: the items of earlier responses, then those of this request.
 */
export function toClientParam(
  param: string,
  { request, items }: { readonly request: ResponsesRequest; readonly items: readonly InputItem[] },
): string {
  return param
    .replace(/^messages\[(\d+)\](\.content)?/, (_, index, content = "") => {
      const position = Number(index) - (request.instructions ? 1 : 0);
      return position < 0 ? "instructions" : toItemParam(position, content, { request, items });
    })
    .replace(/^response_format(\.json_schema)?/, "text.format")
    .replace(/^max_tokens/, () => getLimitName(request))
    .replace(/^tools\[(\d+)\]\.function\./, (_, index) => `${listFunctions(request)[index]!.path}.`)
    .replace(/^tool_choice\.function\./, "tool_choice.");
}

/** Returns the name of the field in which the request sets its token limit. */
function getLimitName(request: ResponsesRequest): string {
  const names = ["max_output_tokens", "max_completion_tokens", "max_tokens"] as const;
  return names.find((name) => (request[name] ?? null) !== null) ?? names[0];
}

function toItemParam(
  position: number,
  content: string,
  { request, items }: { readonly request: ResponsesRequest; readonly items: readonly InputItem[] },
): string {
  const source = toMessages(items)[position];
  if (typeof request.input === "string" || source === undefined) return "input";
  const own = source.position - (items.length - request.input.length);
  if (own < 0) return "previous_response_id";
  const isResult = source.message.role === "tool";
  return `input[${own}]${content && isResult ? ".output" : content}`;
}

/** How a call names its function. */
interface CallName {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

interface FunctionAtPath extends CallName {
  readonly tool: FunctionTool;
  /** Path of the client's field that defines the function. */
  readonly path: string;
}

/** Lists all functions in order, also those in namespaces. Tools that only OpenAI hosts are left out. */
function listFunctions({ tools }: ResponsesRequest): readonly FunctionAtPath[] {
  return (tools ?? []).flatMap((tool, index): FunctionAtPath[] => {
    const path = `tools[${index}]`;
    if (!("tools" in tool)) return "name" in tool ? [{ name: tool.name, tool, path }] : [];
    const { name: namespace, tools: inner } = tool;
    return inner.flatMap((each, at) =>
      "name" in each
        ? [{ name: each.name, namespace, tool: each, path: `${path}.tools[${at}]` }]
        : []
    );
  });
}

/** Lists the types of the hosted tools in a request, which are ignored. */
export function listHostedTools({ tools }: ResponsesRequest): string[] {
  return (tools ?? []).flatMap((tool) => "tools" in tool ? tool.tools : [tool])
    .flatMap((tool) => "name" in tool ? [] : [tool.type]);
}

/** Makes the name of a function for the model, because chat templates have no namespaces. */
function toShownName({ name, namespace }: CallName): string {
  return namespace ? `${namespace}__${name}` : name;
}

/** Maps the names that the model uses to the client's names, for functions in namespaces. */
export function mapCallNames(
  request: ResponsesRequest,
): ReadonlyMap<string, { readonly name: string; readonly namespace: string }> {
  return new Map(
    listFunctions(request).flatMap(({ name, namespace }) =>
      namespace ? [[toShownName({ name, namespace }), { name, namespace }]] : []
    ),
  );
}
