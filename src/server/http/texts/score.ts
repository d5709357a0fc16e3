/**
 * `POST /score`: scores of pairs of texts in vLLM's form.
 *
 * @module
 */
import { wantsLogits } from "../../../wire/rerank_request.ts";
import { listTexts, ScoreList, ScoreRequest } from "../../../wire/score_request.ts";
import type { AppDeps, Call, Route } from "../route.ts";
import { readTextRequest, readTruncation, TEXT_ERRORS } from "./text_request.ts";

/** The endpoint. */
export function scoreRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: "/score",
    operation: {
      summary: "Score pairs of texts, in vLLM's form",
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
    handle: async (call) => call.json(await answer(call, deps)),
  };
}

async function answer(call: Call, deps: AppDeps): Promise<ScoreList> {
  const { modelId, request } = await readTextRequest(call, deps, {
    path: "/score",
    schema: ScoreRequest,
    unserved: "score",
  });
  const requestId = call.get("requestId");
  const queries = listTexts(request.text_1);
  const { scores, logits, promptTokens } = await deps.session.answer({
    type: "rerank",
    requestId,
    query: queries.length === 1 ? queries[0]! : queries,
    documents: listTexts(request.text_2),
    truncation: readTruncation(request),
  }, { signal: call.req.raw.signal });
  return {
    id: `score-${requestId}`,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model: modelId,
    data: Array.from(
      wantsLogits(request) ? logits : scores,
      (score, index) => ({ index, object: "score", score }),
    ),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}
