/**
 * Builds new responses, and names their functions.
 *
 * @module
 */
import type { FunctionTool, ResponsesRequest } from "../../../wire/responses_request.ts";
import type { ResponseObject } from "../../../wire/responses_response.ts";

/** The identity of a response, and the request whose fields it repeats. */
export interface ResponseHead {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
  readonly request: ResponsesRequest;
}

/** Creates a response that has no output yet. */
export function newResponse({ id, createdSeconds, model, request }: ResponseHead): ResponseObject {
  return {
    id,
    object: "response",
    created_at: createdSeconds,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    model,
    output: [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: {
      effort: request.reasoning?.effort ?? null,
      summary: request.reasoning?.summary ?? request.reasoning?.generate_summary ?? null,
    },
    store: request.store ?? true,
    temperature: request.temperature ?? null,
    text: { format: request.text?.format ?? { type: "text" } },
    tool_choice: request.tool_choice ?? "auto",
    tools: request.tools ?? [],
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? null,
    truncation: request.truncation ?? "disabled",
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
    background: false,
  };
}

/** How a call names its function. */
interface CallName {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

interface FunctionAtPath extends CallName {
  readonly tool: FunctionTool;
  /** Path of the client's field. */
  readonly path: string;
}

/** Lists all functions in order. Tools that only OpenAI hosts are left out. */
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

/** Types of the hosted tools in a request, which are ignored. */
export function listHostedTools({ tools }: ResponsesRequest): string[] {
  return (tools ?? []).flatMap((tool) => "tools" in tool ? tool.tools : [tool])
    .flatMap((tool) => "name" in tool ? [] : [tool.type]);
}

/** The name under which the model is shown a function, because chat templates have no namespaces. */
export function shownName({ name, namespace }: CallName): string {
  return namespace ? `${namespace}__${name}` : name;
}

/** Creates the map from the names that the model uses to the client's names. */
export function callNames(
  request: ResponsesRequest,
): ReadonlyMap<string, { readonly name: string; readonly namespace: string }> {
  return new Map(
    listFunctions(request).flatMap(({ name, namespace }) =>
      namespace ? [[shownName({ name, namespace }), { name, namespace }]] : []
    ),
  );
}
