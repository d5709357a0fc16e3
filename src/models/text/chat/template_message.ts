/**
 * Converts messages and functions to the layout that chat templates take.
 *
 * @module
 */
import type { CallFormat } from "../calls/call_format.ts";
import { detectCallFormat } from "../calls/call_formats.ts";
import type {
  ChatMessage,
  Conversation,
  PromptOptions,
  ToolCall,
  ToolFunction,
} from "../../task.ts";
import { HearthError } from "../../../base/errors.ts";
import { JsonText } from "../../../jinja/template.ts";

export interface TemplateMessage {
  readonly role: ChatMessage["role"];
  /** A text, or parts: `{ type: "text", text }`, `{ type: "image" }`. */
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly TemplateCall[];
  /** The tools as JSON, for templates that read them from the system message. */
  readonly tools?: string;
  /** Reasoning, under the name of most templates. */
  readonly reasoning_content?: string;
  /** Reasoning, under the name of some templates. */
  readonly thinking?: string;
}

/** A call in the layout that templates take. */
interface TemplateCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: JsonText };
}

/**
 * Converts messages to the fields that templates read.
 *
 * @param toContent gives a message's content.
 */
export function toTemplateMessages(
  messages: readonly ChatMessage[],
  toContent: (message: ChatMessage, index: number) => TemplateMessage["content"],
): TemplateMessage[] {
  const callNames = new Map<string, string>();
  return messages.map((message, index) => {
    const { role, toolCallId, toolCalls = [], reasoning } = message;
    for (const { id, name } of toolCalls) callNames.set(id, name);
    // The name of the tool's function: some templates render only that, and not every client repeats it.
    const name = message.name ?? callNames.get(toolCallId ?? "");
    return {
      role,
      content: toContent(message, index),
      ...(name !== undefined && { name }),
      ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
      ...(toolCalls.length > 0 && { tool_calls: toolCalls.map(toTemplateCall) }),
      ...(reasoning !== undefined && { reasoning_content: reasoning, thinking: reasoning }),
    };
  });
}

function toTemplateCall({ id, name, arguments: json }: ToolCall): TemplateCall {
  return { id, type: "function", function: { name, arguments: new JsonText(json) } };
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

/**
 * Makes calls renderable: gives them ids that the template accepts, even if another server assigned others, and writes
 * them into the text as the model would if the template does not support `tool_calls`.
 */
export function fitCalls(
  messages: readonly TemplateMessage[],
  template: string,
): readonly TemplateMessage[] {
  const format = detectCallFormat(template);
  const showsCalls = template.includes("tool_calls");
  const { toCallId } = format;
  if (showsCalls && toCallId === undefined) return messages;
  return messages.map((message) => {
    const { tool_calls: calls, tool_call_id: id, ...others } = message;
    if (calls !== undefined && !showsCalls) {
      const { content } = message;
      const text = textOfCalls(calls, format);
      return {
        ...others,
        content: typeof content === "string"
          ? content + text
          : [...content, { type: "text", text }],
      };
    }
    return {
      ...others,
      ...(id !== undefined && { tool_call_id: toCallId?.(id) ?? id }),
      ...(calls !== undefined && {
        tool_calls: calls.map((call) => ({ ...call, id: toCallId?.(call.id) ?? call.id })),
      }),
    };
  });
}

function textOfCalls(calls: readonly TemplateCall[], { markup, writeCall }: CallFormat): string {
  const write = writeCall ?? ((name, values) => JSON.stringify({ name, arguments: values }));
  const written = calls.map(({ function: called }) =>
    write(called.name, parseArguments(called.arguments.text))
  );
  return markup.trigger + markup.open + written.join(markup.separator) + markup.close;
}

/** Merges consecutive messages of one role, user or assistant. Messages with anything but text are not merged. */
export function mergeTurns(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  const merged: TemplateMessage[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    const isSame = last?.role === message.role && [last, message].every(isPlainTurn);
    if (isSame) merged.splice(-1, 1, { ...last, content: join(last.content, message.content) });
    else merged.push(message);
  }
  return merged;
}

function isPlainTurn({ role, content: _, ...others }: TemplateMessage): boolean {
  return (role === "user" || role === "assistant") && Object.keys(others).length === 0;
}

function join(
  first: TemplateMessage["content"],
  second: TemplateMessage["content"],
): TemplateMessage["content"] {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [first, second].flatMap((content) =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}

/** How a conversation is rendered. */
export interface RenderOptions extends PromptOptions {
  /** The functions offered to the model. */
  readonly functions?: readonly ToolFunction[] | undefined;
}

/** What rendering needs to know about a template. */
interface Template {
  /** Whether it renders functions. */
  readonly takesTools: boolean;
}

/**
 * The options for rendering a task's conversation.
 *
 * @throws {HearthError} `unsupported_by_model` for tools, if the template does not render them.
 */
export function renderOptions(
  { messages, prompt, tools }: Conversation,
  template: Template | undefined,
): RenderOptions {
  const functions = tools === undefined || tools.choice === "none" ? [] : tools.functions;
  if (functions.length > 0) requireTools(template, "tools");
  const asked = messages.findIndex(({ role, toolCalls = [] }) =>
    role === "tool" || toolCalls.length > 0
  );
  if (asked >= 0) requireTools(template, `messages[${asked}]`);
  return { ...prompt, functions };
}

function requireTools(template: Template | undefined, param: string): void {
  if (template?.takesTools) return;
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model's chat template does not support tools.`,
    { param },
  );
}
