/**
 * The functions of a request for a response, those within namespaces too.
 *
 * @module
 */
import type { FunctionTool, ResponsesRequest } from "../../../wire/responses_request.ts";

/** What a call of a function says of it. */
interface CallName {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

interface FunctionAtPath extends CallName {
  readonly tool: FunctionTool;
  /** Path of the client's field. */
  readonly path: string;
}

/** All functions in order; tools that only OpenAI hosts are none. */
export function listFunctions({ tools }: ResponsesRequest): readonly FunctionAtPath[] {
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

/** Types of hosted tools, which are ignored. */
export function listHostedTools({ tools }: ResponsesRequest): string[] {
  return (tools ?? []).flatMap((tool) => "tools" in tool ? tool.tools : [tool])
    .flatMap((tool) => "name" in tool ? [] : [tool.type]);
}

/** The name that the model knows a function by: chat templates have no namespaces. */
export function shownName({ name, namespace }: CallName): string {
  return namespace ? `${namespace}__${name}` : name;
}

/** What a call is named to the client, from the name that the model gave. */
export function callNames(
  request: ResponsesRequest,
): ReadonlyMap<string, { readonly name: string; readonly namespace: string }> {
  return new Map(
    listFunctions(request).flatMap(({ name, namespace }) =>
      namespace ? [[shownName({ name, namespace }), { name, namespace }]] : []
    ),
  );
}
