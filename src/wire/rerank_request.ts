/**
 * The body of a rerank request, in the specification's form, Jina's and Cohere's.
 *
 * @module
 */
import { z } from "zod";
import { TRUNCATION_FIELDS } from "./embedding_request.ts";
import { flag, integerFrom, listSchema, text } from "./fields.ts";

const MAX_DOCUMENTS = 16_384;

/** How scores are given; shared with requests of scores. */
export const SCORE_FIELDS = {
  raw_scores: flag().nullish()
    .describe("Give logits, which are not bounded, in place of scores from 0 to 1"),
  use_activation: flag().nullish().describe("vLLM's name of the opposite of raw_scores"),
  activation: flag().nullish().describe("vLLM's former name of the same"),
};

/** Whether a request wants logits. */
export function wantsLogits(request: {
  readonly raw_scores?: boolean | null | undefined;
  readonly use_activation?: boolean | null | undefined;
  readonly activation?: boolean | null | undefined;
}): boolean {
  return request.raw_scores ?? !(request.use_activation ?? request.activation ?? true);
}

const documentWanted = "a string, or an object with a text";

const Document = z.union(
  [z.string({ error: documentWanted }), z.object({ text: z.string({ error: "a string" }) })],
  { error: documentWanted },
).meta({ id: "RerankDocument" });

/** A rerank request. `null` stands for an absent field; fields not named here are ignored. */
export const RerankRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  query: text().describe("What the documents are to answer"),
  documents: listSchema(Document, { min: 1, max: MAX_DOCUMENTS }).describe("The texts to order"),
  top_n: integerFrom(1).nullish().describe("Best results to return; all if absent"),
  top_k: integerFrom(1).nullish().describe("Voyage's name of top_n"),
  return_documents: flag().nullish()
    .describe("Repeat each document in its result; default true, on /v2/rerank false"),
  return_text: flag().nullish().describe("llama.cpp's name of return_documents"),
  ...SCORE_FIELDS,
  instruction: text().max(4096, { error: "a string of at most 4096 characters" }).nullish()
    .describe("What relevance means, for language models that rerank; the model's own if absent"),
  max_tokens_per_doc: integerFrom(1).nullish()
    .describe(
      "Cut each document to this many tokens; default no limit of its own, on /v2/rerank 4096",
    ),
  ...TRUNCATION_FIELDS,
}, { error: "a JSON object" }).meta({ id: "RerankRequest" });

export type RerankRequest = z.output<typeof RerankRequest>;
