/**
 * `POST /rerank`, `POST /v2/rerank` in the format of Cohere's API v2, and `POST /score` in vLLM's format.
 *
 * @module
 */
import { z } from "zod";
import {
  CohereRerankList,
  listTexts,
  orderResults,
  RerankList,
  RerankRequest,
  ScoreList,
  ScoreRequest,
  TextRanks,
  wantsLogits,
} from "../../../wire/rerank.ts";
import type { RerankTask } from "../../../models/task.ts";
import { readKeepsEnd, readTruncation, wantsCut } from "../../../wire/embeddings.ts";
import { readRequest } from "../requests.ts";
import { type AppDeps, type Call, type Operation, type Route, TEXT_ERRORS } from "../route.ts";

/** The default of Cohere's API v2. */
const DEFAULT_MAX_TOKENS_PER_DOC = 4096;

const REQUEST = {
  request: RerankRequest,
  requestExamples: {
    "two documents": {
      query: "What is the capital of Portugal?",
      documents: ["The capital of Spain is Madrid.", "The capital of Portugal is Lisbon."],
      top_n: 1,
    },
  },
  errors: TEXT_ERRORS,
} satisfies Partial<Operation>;

/** The endpoints that order documents. */
export function rerankRoutes(deps: AppDeps): Route[] {
  return [{
    method: "POST",
    path: "/rerank",
    operation: {
      summary: "Order documents by relevance to a query",
      ...REQUEST,
      response: {
        description: "The documents' scores, the highest first",
        content: z.union([RerankList, TextRanks]),
      },
    },
    handle: async (call) => call.json(await answerRerank(call, deps)),
  }, {
    method: "POST",
    path: "/v2/rerank",
    operation: {
      summary: "Order documents by relevance, in the format of Cohere's API v2",
      description: "Documents that are too long are cut.",
      ...REQUEST,
      response: {
        description: "The documents' scores, the highest first",
        content: CohereRerankList,
      },
    },
    handle: async (call) => call.json(await answerCohere(call, deps)),
  }];
}

async function answerRerank(call: Call, deps: AppDeps): Promise<RerankList | TextRanks> {
  const { model, request, answer } = await score(call, deps, (request) => ({
    truncation: readTruncation(request),
    maxDocumentTokens: request.max_tokens_per_doc ?? undefined,
  }));
  const { texts } = request;
  if (Array.isArray(texts)) {
    const hasText = wantsDocuments(request) ?? false;
    return orderResults(answer, request, { hasDocuments: false })
      .map(({ index, relevance_score: score }) => ({
        index,
        score,
        ...(hasText && { text: texts[index]! }),
      }));
  }
  return {
    object: "list",
    model,
    results: orderResults(answer, request, { hasDocuments: wantsDocuments(request) ?? true }),
    usage: { prompt_tokens: answer.promptTokens, total_tokens: answer.promptTokens },
  };
}

async function answerCohere(call: Call, deps: AppDeps): Promise<CohereRerankList> {
  const { request, answer } = await score(call, deps, (request) => ({
    truncation: readTruncation(request) ?? (wantsCut(request) === false ? undefined : "model"),
    maxDocumentTokens: request.max_tokens_per_doc ?? DEFAULT_MAX_TOKENS_PER_DOC,
  }));
  return {
    id: call.get("requestId"),
    results: orderResults(answer, request, { hasDocuments: wantsDocuments(request) ?? false })
      .map(wrapDocument),
    meta: { api_version: { version: "2" }, tokens: { input_tokens: answer.promptTokens } },
  };
}

/** Makes the document of a result an object, as Cohere does even if documents were sent as texts. */
function wrapDocument({ document, ...result }: RerankList["results"][number]) {
  return {
    ...result,
    ...(document !== undefined && {
      document: typeof document === "string" ? { text: document } : document,
    }),
  };
}

function wantsDocuments(request: RerankRequest): boolean | undefined {
  return request.return_documents ?? request.return_text ?? undefined;
}

/** Scores the documents of a request. @param findCuts returns the lengths to which texts are cut. */
async function score(
  call: Call,
  deps: AppDeps,
  findCuts: (request: RerankRequest) => Pick<RerankTask, "truncation" | "maxDocumentTokens">,
) {
  const request = await readRequest(call, deps, {
    path: "/rerank",
    schema: RerankRequest,
    unserved: "rerank",
  });
  const { id: model } = deps.session.requireReady();
  const answer = await deps.session.answer({
    type: "rerank",
    requestId: call.get("requestId"),
    query: request.query,
    documents: request.documents.map((document) =>
      typeof document === "string" ? document : document.text
    ),
    instruction: request.instruction ?? undefined,
    keepsEnd: readKeepsEnd(request),
    ...findCuts(request),
  }, { signal: call.req.raw.signal });
  return { model, request, answer };
}

/** The endpoint of vLLM's format. */
export function scoreRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: "/score",
    operation: {
      summary: "Score pairs of texts, in vLLM's format",
      request: ScoreRequest,
      requestExamples: {
        "one with two": { text_1: "fruit", text_2: ["a green apple", "a blue car"] },
      },
      response: {
        description: "A score for each pair, in the request's order",
        content: ScoreList,
      },
      errors: TEXT_ERRORS,
    },
    handle: async (call) => call.json(await answerScore(call, deps)),
  };
}

async function answerScore(call: Call, deps: AppDeps): Promise<ScoreList> {
  const request = await readRequest(call, deps, {
    path: "/score",
    schema: ScoreRequest,
    unserved: "score",
  });
  const { id: model } = deps.session.requireReady();
  const requestId = call.get("requestId");
  const queries = listTexts(request.text_1);
  const { scores, logits, promptTokens } = await deps.session.answer({
    type: "rerank",
    requestId,
    query: queries.length === 1 ? queries[0]! : queries,
    documents: listTexts(request.text_2),
    truncation: readTruncation(request),
    keepsEnd: readKeepsEnd(request),
  }, { signal: call.req.raw.signal });
  return {
    id: `score-${requestId}`,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model,
    data: Array.from(
      wantsLogits(request) ? logits : scores,
      (score, index) => ({ index, object: "score", score }),
    ),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}
