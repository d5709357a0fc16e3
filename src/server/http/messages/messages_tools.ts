/**
 * Selects the tools of a Messages request that the model is shown.
 *
 * @module
 */
import type { CountTokensRequest, Message, MessagesTool } from "../../../wire/messages_request.ts";

/** A tool, and the path of the client's field that defines it. */
interface ToolAtPath {
  readonly tool: MessagesTool;
  readonly path: string;
}

/**
 * The tools that a request and its messages define. Leaves out tools with `defer_loading` that the conversation has not
 * named yet, and tools that a message removes.
 */
export function shownTools({ tools, messages }: CountTokensRequest): readonly ToolAtPath[] {
  const all = (tools ?? []).flatMap((tool, index): ToolAtPath[] =>
    isOwn(tool) ? [{ tool, path: `tools[${index}]` }] : []
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

function isOwn(tool: ListedTool): tool is MessagesTool {
  return "input_schema" in tool;
}

/** Types of the tools in a request that Anthropic would run. */
export function listHostedTools({ tools }: CountTokensRequest): string[] {
  return (tools ?? []).flatMap((tool) => isOwn(tool) ? [] : [tool.type]);
}

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
