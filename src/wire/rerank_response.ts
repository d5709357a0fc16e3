/**
 * The answer to a rerank request.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import { type RerankRequest, wantsLogits } from "./rerank_request.ts";

const RerankResult = z.object({
  index: integerFrom(0).describe("Index of the document in the request"),
  relevance_score: z.number()
    .describe("Higher is more relevant; from 0 to 1, unless raw scores are asked for"),
  document: z.union([z.string(), z.object({ text: z.string() })]).optional()
    .describe("As the request had it"),
}).meta({ id: "RerankResult" });

/** Results, the most relevant first. */
export const RerankList = z.object({
  object: z.literal("list"),
  model: z.string(),
  results: z.array(RerankResult),
  usage: z.object({ prompt_tokens: integerFrom(0), total_tokens: integerFrom(0) }),
}).meta({ id: "RerankList" });

/** Results as Cohere's second version has them. */
export const CohereRerankList = z.object({
  id: z.string(),
  results: z.array(RerankResult),
  meta: z.object({
    api_version: z.object({ version: z.string() }),
    tokens: z.object({ input_tokens: integerFrom(0) }),
  }),
}).meta({ id: "CohereRerankList" });

export type RerankList = z.output<typeof RerankList>;
export type CohereRerankList = z.output<typeof CohereRerankList>;

/** Orders by logit, since scores may be rounded to the same; equal logits keep the order of the documents. */
export function orderResults(
  { scores, logits }: { readonly scores: Float32Array; readonly logits: Float32Array },
  request: RerankRequest,
  { hasDocuments }: { hasDocuments: boolean },
): RerankList["results"] {
  const { documents, top_n: mostResults, top_k: sameMost } = request;
  const shown = wantsLogits(request) ? logits : scores;
  return [...logits.keys()]
    .sort((a, b) => logits[b]! - logits[a]!)
    .slice(0, mostResults ?? sameMost ?? undefined)
    .map((index) => ({
      index,
      relevance_score: shown[index]!,
      ...(hasDocuments && { document: documents[index]! }),
    }));
}
