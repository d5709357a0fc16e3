/**
 * `POST /embeddings`.
 *
 * @module
 */
import { EmbeddingRequest } from "../../api/embedding_request.ts";
import { EmbeddingList, writeEmbeddings } from "../../api/embedding_response.ts";
import type { TextInput } from "../../models/task.ts";
import type { AppDeps, Call, Route } from "../route.ts";
import { readTextRequest, TEXT_ERRORS, truncationOf } from "./text_request.ts";

/** The endpoint. */
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
  const { modelId, request } = await readTextRequest(call, deps, {
    path: "/embeddings",
    schema: EmbeddingRequest,
  });
  const { vectors, dimensions, promptTokens } = await deps.session.answer({
    type: "embed",
    requestId: call.get("requestId"),
    inputs: listInputs(request.input),
    inputType: request.input_type ?? undefined,
    dimensions: request.dimensions ?? undefined,
    truncation: truncationOf(request),
  }, { signal: call.req.raw.signal });
  const format = request.encoding_format ?? "float";
  const id = call.get("requestId");
  return jsonOf(writeEmbeddings({ id, model: modelId, vectors, dimensions, promptTokens, format }));
}

function listInputs(input: EmbeddingRequest["input"]): readonly TextInput[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as number[]] : input as string[] | number[][];
}

/** A JSON answer written in pieces; other requests run between the pieces of a large one. */
function jsonOf(pieces: Generator<string>): Response {
  const first = pieces.next().value!;
  const second = pieces.next();
  const headers = { "content-type": "application/json" };
  if (second.done) return new Response(first, { headers });
  const encoder = new TextEncoder();
  const waiting = [first, second.value];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = waiting.shift() ?? pieces.next().value;
      if (piece === undefined) controller.close();
      else controller.enqueue(encoder.encode(piece));
    },
  });
  return new Response(body, { headers });
}
