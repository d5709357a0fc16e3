/**
 * `POST /v2/embed`: embeddings for clients of Cohere's second version.
 *
 * @module
 */
import {
  CohereEmbedRequest,
  CohereEmbedResponse,
  embeddingsByType,
} from "../../../wire/cohere_embed.ts";
import { inOwnWords } from "../chat/own_param.ts";
import type { AppDeps, Call, Route } from "../route.ts";
import { readTextRequest, TEXT_ERRORS } from "./text_request.ts";

/** The endpoint. */
export function cohereEmbedRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: "/v2/embed",
    operation: {
      summary: "Turn texts into vectors, in the form of Cohere's second version",
      request: CohereEmbedRequest,
      requestExamples: {
        "two texts": { texts: ["a green apple", "a red pear"], embedding_types: ["int8"] },
      },
      response: {
        description: "A vector for each text in each requested type",
        content: CohereEmbedResponse,
      },
      errors: TEXT_ERRORS,
    },
    handle: async (call) => call.json(await answer(call, deps)),
  };
}

async function answer(call: Call, deps: AppDeps): Promise<CohereEmbedResponse> {
  const { request } = await readTextRequest(call, deps, {
    path: "/v2/embed",
    schema: CohereEmbedRequest,
  });
  const { texts, input_type: type, embedding_types: types, truncate } = request;
  const cut = request.max_tokens ?? "model";
  const { vectors, dimensions, promptTokens } = await deps.session.answer({
    type: "embed",
    requestId: call.get("requestId"),
    inputs: texts,
    inputType: type === "search_query"
      ? "query"
      : type === "search_document"
      ? "document"
      : undefined,
    dimensions: request.output_dimension ?? undefined,
    truncation: truncate === "NONE" ? undefined : cut,
  }, { signal: call.req.raw.signal }).catch((error) => {
    throw inOwnWords(error, (param) => param.replace("truncate_prompt_tokens", "max_tokens"));
  });
  const wanted = types !== null && types !== undefined && types.length > 0
    ? types
    : ["float" as const];
  return {
    id: call.get("requestId"),
    response_type: "embeddings_by_type",
    embeddings: embeddingsByType(vectors, { dimensions, types: wanted }),
    texts,
    meta: { api_version: { version: "2" }, billed_units: { input_tokens: promptTokens } },
  };
}
