/**
 * Messages in the form that chat templates take.
 *
 * @module
 */
import type { ChatMessage, ToolCall } from "../task.ts";

/** One message. */
export interface TemplateMessage {
  readonly role: ChatMessage["role"];
  /** Parts: `{ type: "text", text }`, `{ type: "image" }`. */
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly TemplateCall[];
  /** The tools as JSON, for templates that read them from the system message. */
  readonly tools?: string;
  /** The name in most templates. */
  readonly reasoning_content?: string;
  /** The name in some templates. */
  readonly thinking?: string;
}

/** A call in the form that templates take. */
export interface TemplateCall {
  readonly id: string;
  readonly type: "function";
  /** An object, which templates render as JSON; a string only if it is not valid JSON. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/**
 * Messages with all fields besides content as templates name them.
 *
 * @param contentOf a message's content.
 */
export function toTemplateMessages(
  messages: readonly ChatMessage[],
  contentOf: (message: ChatMessage, index: number) => TemplateMessage["content"],
): TemplateMessage[] {
  const nameOfCall = new Map<string, string>();
  return messages.map((message, index) => {
    const { role, toolCallId, toolCalls = [], reasoning } = message;
    for (const { id, name } of toolCalls) nameOfCall.set(id, name);
    // The function's name: not every client repeats it, and some templates render only that.
    const name = message.name ?? nameOfCall.get(toolCallId ?? "");
    return {
      role,
      content: contentOf(message, index),
      ...(name !== undefined && { name }),
      ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
      ...(toolCalls.length > 0 && { tool_calls: toolCalls.map(toTemplateCall) }),
      ...(reasoning !== undefined && { reasoning_content: reasoning, thinking: reasoning }),
    };
  });
}

function toTemplateCall({ id, name, arguments: json }: ToolCall): TemplateCall {
  return { id, type: "function", function: { name, arguments: parseArguments(json) } };
}

function parseArguments(json: string): unknown {
  if (json.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : json;
  } catch {
    // A truncated call must not prevent the conversation from continuing.
    return json;
  }
}
