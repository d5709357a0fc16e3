/**
 * `POST /embeddings`, `POST /embed` and `POST /` for clients of text-embeddings-inference, `POST /v2/embed` for clients
 * of Cohere's API v2, and `POST /embed` with the field `texts` for those of its v1.
 *
 * @module
 */
import { z } from "zod";
import {
  CohereEmbedRequest,
  CohereEmbedResponse,
  convertVectors,
  EmbeddingList,
  EmbeddingRequest,
  readKeepsEnd,
  readNormalization,
  readPurpose,
  readTruncation,
  readVectorType,
  TextEmbedRequest,
  TextVectors,
  writeEmbeddings,
  writeTextVectors,
} from "../../../wire/embeddings.ts";
import { HearthError } from "../../../base/errors.ts";
import type { TextInput } from "../../../models/task.ts";
import { parseRequest } from "../../../wire/fields.ts";
import { findUnserved } from "../../../wire/unserved_fields.ts";
import { readRequest, renameParam, warn } from "../requests.ts";
import { type AppDeps, type Call, type Route, TEXT_ERRORS } from "../route.ts";

/** The body of a request whose format is known from its fields. */
const AnyObject = z.looseObject({}, { error: "a JSON object" });

/** The endpoint of OpenAI's format. */
export function embeddingsRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: "/embeddings",
    operation: {
      summary: "Turn texts into vectors",
      request: EmbeddingRequest,
      requestExamples: {
        "two texts": { input: ["How do I boil an egg?", "The capital of Portugal is Lisbon."] },
      },
      response: {
        description: "A vector for each text, in the request's order",
        content: EmbeddingList,
      },
      errors: TEXT_ERRORS,
    },
    handle: (call) => answerEmbeddings(call, deps),
  };
}

async function answerEmbeddings(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, {
    path: "/embeddings",
    schema: EmbeddingRequest,
    unserved: "embedding",
  });
  const { vectors, dimensions, promptTokens } = await deps.session.answer({
    type: "embed",
    requestId: call.get("requestId"),
    inputs: listInputs(request.input),
    ...readPurpose(request),
    dimensions: request.dimensions ?? request.output_dimension ?? undefined,
    normalizes: readNormalization(request),
    truncation: readTruncation(request),
    keepsEnd: readKeepsEnd(request),
  }, { signal: call.req.raw.signal }).catch((error) => {
    throw renameParam(error, (param) => toClientParam(param, request));
  });
  const format = readVectorType(request);
  const { id: model } = deps.session.requireReady();
  const id = call.get("requestId");
  return toJsonResponse(
    writeEmbeddings({ id, model, vectors, dimensions, promptTokens, format }),
  );
}

function listInputs(input: EmbeddingRequest["input"]): readonly TextInput[] {
  if (typeof input === "string") return [input];
  if (typeof input[0] === "number") return [input as number[]];
  return (input as (string | number[] | { text: string })[])
    .map((each) => typeof each === "object" && "text" in each ? each.text : each);
}

/** Maps a field of the task to the request's field. */
function toClientParam(param: string, request: EmbeddingRequest): string {
  if (param === "dimensions" && (request.dimensions ?? null) === null) return "output_dimension";
  if (param !== "prompt_name" || (request.prompt_name ?? null) !== null) return param;
  return (request.input_type ?? null) === null ? "task" : "input_type";
}

/** Makes a JSON response of chunks. While a large response is written, other requests run between its chunks. */
function toJsonResponse(chunks: Generator<string>): Response {
  const first = chunks.next().value!;
  const second = chunks.next();
  const headers = { "content-type": "application/json" };
  if (second.done) return new Response(first, { headers });
  const encoder = new TextEncoder();
  const waiting = [first, second.value];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = waiting.shift() ?? chunks.next().value;
      if (chunk === undefined) controller.close();
      else controller.enqueue(encoder.encode(chunk));
    },
  });
  return new Response(body, { headers });
}

/** The endpoints of text-embeddings-inference's format. Some of its clients post to the server's root. */
export function textEmbedRoutes(deps: AppDeps): Route[] {
  const operation = {
    summary: "Turn texts into vectors, in the format of text-embeddings-inference",
    request: TextEmbedRequest,
    requestExamples: { "two texts": { inputs: ["a green apple", "a red pear"] } },
    response: {
      description: "A vector for each text, in the request's order",
      content: TextVectors,
    },
    errors: TEXT_ERRORS,
  };
  return [{
    method: "POST",
    path: "/embed",
    operation: {
      ...operation,
      summary: `${operation.summary} or, with the field texts, of Cohere's API v1`,
      request: z.union([TextEmbedRequest, CohereEmbedRequest]),
      response: { ...operation.response, content: z.union([TextVectors, CohereEmbedResponse]) },
    },
    handle: (call) => answerTexts(call, deps, { takesCohere: true }),
  }, {
    method: "POST",
    path: "/",
    operation: {
      ...operation,
      summary: `${operation.summary}, as at /embed`,
      errors: [...operation.errors, "method_not_allowed"],
    },
    handle: (call) => {
      if (deps.session.requireReady().kind !== "embedding") refusePostToRoot(call);
      return answerTexts(call, deps);
    },
  }];
}

/** Refuses a `POST /` because no embedding model is loaded. @throws {HearthError} `method_not_allowed`. */
export function refusePostToRoot(call: Call): never {
  const allowed = "GET, HEAD, OPTIONS";
  call.header("allow", allowed);
  throw new HearthError(
    "method_not_allowed",
    `/ takes POST only if an embedding model is loaded; here it takes ${allowed}. See /docs for the endpoints.`,
  );
}

/** @param options.takesCohere whether a request with the field `texts` is one of Cohere's API v1. */
async function answerTexts(
  call: Call,
  deps: AppDeps,
  { takesCohere = false } = {},
): Promise<Response> {
  const body = await readRequest(call, deps, { path: "/embed", schema: AnyObject });
  if (takesCohere && (body["texts"] ?? null) !== null) {
    return call.json(await answerCohere(call, deps, { body, version: "1" }));
  }
  const request = parseRequest(TextEmbedRequest, body);
  warn(call, ...findUnserved(body, "embedding"));
  const vectors = await deps.session.answer({
    type: "embed",
    requestId: call.get("requestId"),
    inputs: listInputs(request.inputs),
    promptName: request.prompt_name ?? undefined,
    dimensions: request.dimensions ?? undefined,
    normalizes: request.normalize ?? true,
    truncation: readTruncation(request),
    keepsEnd: readKeepsEnd(request),
  }, { signal: call.req.raw.signal }).catch((error) => {
    throw renameParam(error, (param) => param.replace(/^input(?=\[|$)/, "inputs"));
  });
  return toJsonResponse(writeTextVectors(vectors));
}

/** The endpoint of Cohere's format. */
export function cohereEmbedRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: "/v2/embed",
    operation: {
      summary: "Turn texts into vectors, in the format of Cohere's API v2",
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
    handle: async (call) => {
      const body = await readRequest(call, deps, { path: "/v2/embed", schema: AnyObject });
      return call.json(await answerCohere(call, deps, { body, version: "2" }));
    },
  };
}

async function answerCohere(call: Call, deps: AppDeps, { body, version }: {
  readonly body: unknown;
  readonly version: "1" | "2";
}): Promise<CohereEmbedResponse> {
  const request = parseRequest(CohereEmbedRequest, body);
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
    keepsEnd: readKeepsEnd(request),
  }, { signal: call.req.raw.signal }).catch((error) => {
    throw renameParam(error, (param) => param.replace("truncate_prompt_tokens", "max_tokens"));
  });
  const id = call.get("requestId");
  const meta = { api_version: { version }, billed_units: { input_tokens: promptTokens } };
  const wanted = types ?? [];
  const embeddings = convertVectors(vectors, {
    dimensions,
    types: wanted.length > 0 ? wanted : ["float"],
  });
  // A client of v1 that names no types expects a list.
  return version === "1" && wanted.length === 0
    ? { id, response_type: "embeddings_floats", embeddings: embeddings.float!, texts, meta }
    : { id, response_type: "embeddings_by_type", embeddings, texts, meta };
}
