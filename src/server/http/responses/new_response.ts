/**
 * A response before its first event, and ids.
 *
 * @module
 */
import type { ResponsesRequest } from "../../../wire/responses_request.ts";
import type { ResponseObject } from "../../../wire/responses_response.ts";

/** What a response has of its own, and the request, of which it repeats fields. */
export interface ResponseHead {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
  readonly request: ResponsesRequest;
}

/** A new id of a response or an item. */
export function newId(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
}

/** A response without output. */
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
