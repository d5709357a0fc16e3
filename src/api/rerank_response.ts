/**
 * The answer to a rerank request.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import type { RerankRequest } from "./rerank_request.ts";

const RerankResult = z.object({
  index: integerFrom(0).describe("Index of the document in the request"),
  relevance_score: z.number().min(0).max(1).describe("Higher is more relevant"),
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

/** Orders by score; equal scores keep the order of the documents. */
export function orderResults(
  scores: Float32Array,
  { documents, top_n }: RerankRequest,
  { hasDocuments }: { hasDocuments: boolean },
): RerankList["results"] {
  return [...scores.keys()]
    .sort((a, b) => scores[b]! - scores[a]!)
    .slice(0, top_n ?? undefined)
    .map((index) => ({
      index,
      relevance_score: scores[index]!,
      ...(hasDocuments && { document: documents[index]! }),
    }));
}
