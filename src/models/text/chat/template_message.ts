/**
 * Converts messages to the layout that chat templates take, and detects the call format that a template uses.
 *
 * @module
 */
import type { CallFormat } from "../calls/call_format.ts";
import type {
  ChatMessage,
  Conversation,
  PromptOptions,
  ToolCall,
  ToolFunction,
} from "../../task.ts";
import { HearthError } from "../../../base/errors.ts";
import { JsonText } from "../../../jinja/template.ts";
import { FUNCTION_GEMMA, GEMMA, GLM, QWEN_XML } from "../calls/formats/tagged.ts";
import {
  DEEPSEEK,
  DEEPSEEK_V31,
  GRANITE,
  HARMONY,
  HERMES,
  MISTRAL,
  MISTRAL_ARGS,
  PHI,
  SMOLLM3,
} from "../calls/formats/json.ts";
import { LFM2, LLAMA, MINICPM } from "../calls/formats/python.ts";

export interface TemplateMessage {
  readonly role: ChatMessage["role"];
  /** A text, or parts: `{ type: "text", text }`, `{ type: "image" }`. */
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly TemplateCall[];
  /** The tools as JSON, for templates that read them from the system message. */
  readonly tools?: string;
  /** Reasoning, under the name that most templates read. */
  readonly reasoning_content?: string;
  /** Reasoning, under the name that the other templates read. */
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
 * @param toContent makes the content of a message.
 */
export function toTemplateMessages(
  messages: readonly ChatMessage[],
  toContent: (message: ChatMessage, index: number) => TemplateMessage["content"],
): TemplateMessage[] {
  const callNames = new Map<string, string>();
  return messages.map((message, index) => {
    const { role, toolCallId, toolCalls = [], reasoning } = message;
    for (const { id, name } of toolCalls) callNames.set(id, name);
    // Some templates render only the name of a tool message's function, which not every client repeats.
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
 * Adapts calls to a template. Ids that another server assigned are replaced by ids that the template accepts. If the
 * template does not support `tool_calls`, calls are written into the text as the model writes them.
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
      const text = writeCalls(calls, format);
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

function writeCalls(calls: readonly TemplateCall[], { markup, writeCall }: CallFormat): string {
  const write = writeCall ?? ((name, values) => JSON.stringify({ name, arguments: values }));
  const written = calls.map(({ function: called }) =>
    write(called.name, parseArguments(called.arguments.text))
  );
  return markup.trigger + markup.open + written.join(markup.separator) + markup.close;
}

/** Merges consecutive messages of the same role, user or assistant. Messages with other fields than text are kept. */
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

/** Options for rendering a conversation. */
export interface RenderOptions extends PromptOptions {
  /** The functions offered to the model. */
  readonly functions?: readonly ToolFunction[] | undefined;
}

/** The properties of a template on which rendering depends. */
interface Template {
  /** Whether the template renders functions. */
  readonly takesTools: boolean;
}

/**
 * Makes the options for rendering a task's conversation.
 *
 * @throws {HearthError} `unsupported_by_model` when there are tools or calls, and the template does not render them.
 */
export function makeRenderOptions(
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

/** All call formats, the more specific ones first. */
export const CALL_FORMATS: readonly CallFormat[] = [
  HARMONY,
  GEMMA,
  FUNCTION_GEMMA,
  DEEPSEEK_V31,
  DEEPSEEK,
  MISTRAL_ARGS,
  MISTRAL,
  GLM,
  QWEN_XML,
  SMOLLM3,
  MINICPM,
  LFM2,
  PHI,
  GRANITE,
  HERMES,
  LLAMA,
];

/** Detects the call format that a chat template uses; Llama's bare JSON object if the template shows none. */
export function detectCallFormat(template: string): CallFormat {
  return CALL_FORMATS.find((format) => format.matches(template)) ?? LLAMA;
}
