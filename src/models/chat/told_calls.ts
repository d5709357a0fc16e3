/**
 * Converts calls of a conversation's history to what the chat template accepts.
 *
 * @module
 */
import type { CallFormat } from "../calls/call_format.ts";
import { callFormatOf } from "../calls/call_formats.ts";
import type { TemplateCall, TemplateMessage } from "./template_message.ts";

/**
 * Messages whose calls the template renders: with ids in the form that it requires, even if another server assigned
 * them; and in the text, as the model writes them, if it does not support `tool_calls`.
 */
export function tellCalls(
  messages: readonly TemplateMessage[],
  template: string,
): readonly TemplateMessage[] {
  const format = callFormatOf(template);
  const showsCalls = template.includes("tool_calls");
  const { callIdOf } = format;
  if (showsCalls && callIdOf === undefined) return messages;
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
      ...(id !== undefined && { tool_call_id: callIdOf?.(id) ?? id }),
      ...(calls !== undefined && {
        tool_calls: calls.map((call) => ({ ...call, id: callIdOf?.(call.id) ?? call.id })),
      }),
    };
  });
}

function textOfCalls(calls: readonly TemplateCall[], { markup, writeCall }: CallFormat): string {
  const write = writeCall ?? ((name, values) => JSON.stringify({ name, arguments: values }));
  const written = calls.map(({ function: called }) => write(called.name, called.arguments));
  return markup.trigger + markup.open + written.join(markup.separator) + markup.close;
}
