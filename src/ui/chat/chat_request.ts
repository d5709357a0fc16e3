/**
 * Makes requests from conversations.
 *
 * @module
 */
import type { Attachment, ChatSettings, Message } from "./conversation.ts";

/** The content of a request. */
export interface ChatRequestOptions {
  readonly messages: readonly Message[];
  readonly settings: ChatSettings;
  /** Functions in addition to those in the settings. */
  readonly tools?: readonly unknown[];
  /** Whether to continue the last message, which is an answer. */
  readonly continuesLast?: boolean;
}

/**
 * Makes the request for the next message.
 *
 * @throws {SyntaxError} when the schema or the tools are not JSON.
 */
export function chatRequest(
  model: string,
  { messages, settings, tools = [], continuesLast = false }: ChatRequestOptions,
): Record<string, unknown> {
  const { system, sampling, schema, showsProbabilities, effort } = settings;
  const allTools = [...parseTools(settings.tools), ...tools];
  return {
    model,
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
      ...messages.filter(({ error, text, toolCalls }) => !error || text !== "" || toolCalls).map(
        wireMessage,
      ),
    ],
    ...sampling,
    ...(effort !== "" && { reasoning_effort: effort }),
    ...(schema.trim() !== "" && {
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", strict: true, schema: parseJson("JSON schema", schema) },
      },
    }),
    ...(allTools.length > 0 && { tools: allTools }),
    ...(showsProbabilities && { logprobs: true, top_logprobs: 5 }),
    ...(continuesLast && { continue_final_message: true, add_generation_prompt: false }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function parseTools(text: string): unknown[] {
  if (text.trim() === "") return [];
  const tools = parseJson("tools", text);
  if (!Array.isArray(tools)) {
    throw new SyntaxError("The tools in the settings are not a JSON list.");
  }
  return tools;
}

function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`The ${what} in the settings is not JSON: ${(error as Error).message}`);
  }
}

function wireMessage(message: Message): unknown {
  const { role, text, images = [], files = [], reasoning, toolCalls, toolCallId } = message;
  if (role === "tool") return { role, tool_call_id: toolCallId, content: text };
  // After a tool call, the model continues from its reasoning; templates drop older reasoning themselves.
  const thought = reasoning === undefined ? {} : { reasoning_content: reasoning };
  if (toolCalls !== undefined) {
    return {
      role,
      ...thought,
      content: text === "" ? null : text,
      tool_calls: toolCalls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      })),
    };
  }
  const written = [...files.flatMap(quoteText), text].filter((each) => each !== "").join("\n\n");
  const documents = files.flatMap(wireDocument);
  if (images.length + documents.length === 0) return { role, ...thought, content: written };
  return {
    role,
    content: [
      ...images.map((url) => ({ type: "image_url", image_url: { url } })),
      ...documents,
      ...(written === "" ? [] : [{ type: "text", text: written }]),
    ],
  };
}

/** A document that the server reads, as a part of a message. */
function wireDocument(file: Attachment): unknown[] {
  if ("text" in file) return [];
  return [{ type: "file", file: { filename: file.name, file_data: file.dataUrl } }];
}

/** A text file between fences that are longer than any within it. */
function quoteText(file: Attachment): string[] {
  if ("dataUrl" in file) return [];
  const longest = Math.max(2, ...file.text.match(/`{3,}/g)?.map(({ length }) => length) ?? []);
  const fence = "`".repeat(longest + 1);
  return [`${file.name}:\n${fence}\n${file.text}\n${fence}`];
}
