/**
 * Messages as chat templates take them.
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
  /** JSON, for templates that look for it in the message of the system. */
  readonly tools?: string;
  /** As most templates name it. */
  readonly reasoning_content?: string;
  /** As some do. */
  readonly thinking?: string;
}

/** A call as templates take it. */
export interface TemplateCall {
  readonly id: string;
  readonly type: "function";
  /** Templates write arguments as JSON themselves; a string only where they are none. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/**
 * Messages with what is not content as templates name it.
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
    // Not every client repeats it, and some templates show nothing else of a call.
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
    // A call that was cut off: the conversation is to go on all the same.
    return json;
  }
}
