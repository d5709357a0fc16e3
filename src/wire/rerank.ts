/**
 * Requests to `/rerank` and `/score`, and their responses.
 *
 * @module
 */
import { z } from "zod";
import { isRecord } from "../base/json.ts";
import { TRUNCATION_FIELDS } from "./embeddings.ts";
import { anyText, flag, integerFrom, listSchema, text } from "./fields.ts";

const MAX_DOCUMENTS = 16_384;

/** Fields that choose between scores and logits, shared by both requests. */
const SCORE_FIELDS = {
  raw_scores: flag().nullish()
    .describe("Return logits, which are unbounded, instead of scores from 0 to 1"),
  use_activation: flag().nullish().describe("vLLM's field, the opposite of raw_scores"),
  activation: flag().nullish().describe("vLLM's former name for use_activation"),
};

export function wantsLogits(request: {
  readonly raw_scores?: boolean | null | undefined;
  readonly use_activation?: boolean | null | undefined;
  readonly activation?: boolean | null | undefined;
}): boolean {
  return request.raw_scores ?? !(request.use_activation ?? request.activation ?? true);
}

const documentWanted = "a string, or an object with a text";

const Document = z.union(
  [z.string({ error: documentWanted }), z.object({ text: anyText() })],
  { error: documentWanted },
).meta({ id: "RerankDocument" });

/** Uses `texts` as `documents` if the request has no `documents`. Otherwise `texts` count as absent. */
function fillDocuments(body: unknown): unknown {
  if (!isRecord(body) || !Array.isArray(body["texts"])) return body;
  const { documents, texts } = body;
  const isAlone = documents === null || documents === undefined;
  return isAlone ? { ...body, documents: texts } : { ...body, texts: undefined };
}

/** A rerank request. `null` counts as absent; unknown fields are ignored. */
export const RerankRequest = z.preprocess(
  fillDocuments,
  z.object({
    model: z.unknown().optional().describe("Ignored: the loaded model is used"),
    query: text().describe("The query that the documents are compared with"),
    texts: listSchema(anyText(), { min: 1, max: MAX_DOCUMENTS }).nullish().describe(
      "The documents, as clients of text-embeddings-inference send them; the response is then a list of indices and scores",
    ),
    documents: listSchema(Document, { min: 1, max: MAX_DOCUMENTS }).describe("The texts to rank"),
    top_n: integerFrom(1).nullish().describe(
      "How many of the best results to return; all if absent",
    ),
    top_k: integerFrom(1).nullish().describe("Voyage's name for top_n"),
    return_documents: flag().nullish()
      .describe("Include the document in each result; default true, on /v2/rerank false"),
    return_text: flag().nullish()
      .describe("Another name for return_documents; with texts, the default is false"),
    ...SCORE_FIELDS,
    instruction: text().max(4096, { error: "a string of at most 4096 characters" }).nullish()
      .describe(
        "What counts as relevant, for language models that rerank; the model's own instruction if absent",
      ),
    max_tokens_per_doc: integerFrom(1).nullish()
      .describe(
        "Cut each document to this many tokens; default: the model's limit, on /v2/rerank 4096",
      ),
    ...TRUNCATION_FIELDS,
  }, { error: "a JSON object" }).meta({
    id: "RerankRequest",
    required: ["query"],
    anyOf: [{ required: ["documents"] }, { required: ["texts"] }],
  }),
);

export type RerankRequest = z.output<typeof RerankRequest>;

const RerankResult = z.object({
  index: integerFrom(0).describe("Index of the document in the request"),
  relevance_score: z.number()
    .describe("Higher is more relevant; from 0 to 1, unless the request asks for logits"),
  document: z.union([z.string(), z.object({ text: z.string() })]).optional()
    .describe("The document as it was in the request"),
}).meta({ id: "RerankResult" });

/** Results, most relevant first. */
export const RerankList = z.object({
  object: z.literal("list"),
  model: z.string(),
  results: z.array(RerankResult),
  usage: z.object({ prompt_tokens: integerFrom(0), total_tokens: integerFrom(0) }),
}).meta({ id: "RerankList" });

/** Results in the format of Cohere's API v2. */
export const CohereRerankList = z.object({
  id: z.string(),
  results: z.array(RerankResult),
  meta: z.object({
    api_version: z.object({ version: z.string() }),
    tokens: z.object({ input_tokens: integerFrom(0) }),
  }),
}).meta({ id: "CohereRerankList" });

/** Results in the format of text-embeddings-inference. */
export const TextRanks = z.array(z.object({
  index: integerFrom(0).describe("Index of the text in the request"),
  score: z.number(),
  text: z.string().optional().describe("The text, with return_text"),
})).meta({ id: "TextRanks" });

export type TextRanks = z.output<typeof TextRanks>;
export type RerankList = z.output<typeof RerankList>;
export type CohereRerankList = z.output<typeof CohereRerankList>;

/** Sorts by logit, since scores may be rounded to the same value. Equal logits keep the order of the documents. */
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

const MAX_PAIRS = 16_384;
const Texts = z.union([text(), listSchema(text(), { min: 1, max: MAX_PAIRS })], {
  error: "a string or an array of strings, none of them empty",
});

/** A score request: compares one text with one or several, or two lists of equal length pair by pair. */
export const ScoreRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  text_1: Texts,
  text_2: Texts,
  ...SCORE_FIELDS,
  ...TRUNCATION_FIELDS,
}, { error: "a JSON object" })
  .refine(
    ({ text_1: first, text_2: second }) => {
      const numFirst = listTexts(first).length;
      return numFirst === 1 || numFirst === listTexts(second).length;
    },
    { path: ["text_2"], error: "as many texts as in text_1, unless that is one text" },
  )
  .meta({ id: "ScoreRequest" });

export const ScoreList = z.object({
  id: z.string(),
  object: z.literal("list"),
  created: integerFrom(0),
  model: z.string(),
  data: z.array(z.object({
    index: integerFrom(0),
    object: z.literal("score"),
    score: z.number(),
  })),
  usage: z.object({ prompt_tokens: integerFrom(0), total_tokens: integerFrom(0) }),
}).meta({ id: "ScoreList" });

/** Returns one text, or several, as a list. */
export function listTexts(texts: string | readonly string[]): readonly string[] {
  return typeof texts === "string" ? [texts] : texts;
}

export type ScoreRequest = z.output<typeof ScoreRequest>;
export type ScoreList = z.output<typeof ScoreList>;
