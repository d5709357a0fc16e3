/**
 * From a request in Anthropic's form to the equivalent chat request.
 *
 * @module
 */
import type { ChatMessage } from "../api/chat_message.ts";
import type { ChatRequest } from "../api/chat_request.ts";
import type { ContentPart } from "../api/content_part.ts";
import type { ContentBlock, CountTokensRequest, MessagesRequest } from "../api/messages_request.ts";

/** The chat request. */
export function toChatRequest(request: MessagesRequest | CountTokensRequest): ChatRequest {
  const { system, tools, tool_choice: choice, thinking } = request;
  const systemText = typeof system === "string"
    ? system
    : (system ?? []).map(({ text }) => text).join("\n\n");
  const first: ChatMessage[] = systemText === "" ? [] : [{ role: "system", content: systemText }];
  const isParallel = choice && "disable_parallel_tool_use" in choice
    ? !choice.disable_parallel_tool_use
    : undefined;
  return {
    model: request.model,
    messages: [...first, ...request.messages.flatMap(toMessages)],
    tools: tools?.map(({ name, description, input_schema: parameters }) => ({
      type: "function",
      function: { name, description, parameters },
    })),
    tool_choice: toolChoice(request),
    parallel_tool_calls: isParallel,
    reasoning_effort: thinking ? (thinking.type === "disabled" ? "none" : "medium") : undefined,
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

function toolChoice({ tool_choice: choice }: CountTokensRequest): ChatRequest["tool_choice"] {
  switch (choice?.type) {
    case "any":
      return "required";
    case "tool":
      return { type: "function", function: { name: choice.name } };
    default:
      return choice?.type;
  }
}

/** Tool results become messages of their own, before the text beside them. */
function toMessages({ role, content }: MessagesRequest["messages"][number]): ChatMessage[] {
  if (typeof content === "string") return [{ role, content }];
  const results = content.flatMap((block): ChatMessage[] =>
    block.type === "tool_result"
      ? [{ role: "tool", tool_call_id: block.tool_use_id, content: resultOf(block) }]
      : []
  );
  const parts = content.flatMap(partOf);
  const calls = content.flatMap((block) =>
    block.type === "tool_use"
      ? [{
        id: block.id,
        type: "function" as const,
        function: { name: block.name, arguments: JSON.stringify(block.input) },
      }]
      : []
  );
  const thought = content.flatMap((block) => block.type === "thinking" ? [block.thinking] : []);
  if (parts.length === 0 && calls.length === 0 && thought.length === 0) return results;
  return [...results, {
    role,
    content: parts.length > 0 ? parts : null,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(thought.length > 0 && { reasoning_content: thought.join("\n") }),
  }];
}

function resultOf(
  { content, is_error: failed }: Extract<ContentBlock, { type: "tool_result" }>,
): string | ContentPart[] {
  const parts = typeof content === "string"
    ? [{ type: "text" as const, text: content }]
    : (content ?? []).flatMap(partOf);
  if (parts.length === 0) return failed ? "Error" : "";
  return failed ? [{ type: "text", text: "Error:" }, ...parts] : parts;
}

function partOf(block: ContentBlock): ContentPart[] {
  if (block.type === "text") return [block];
  if (block.type !== "image") return [];
  const { source } = block;
  const url = source.type === "url"
    ? source.url
    : `data:${source.media_type};base64,${source.data}`;
  return [{ type: "image_url", image_url: url }];
}
