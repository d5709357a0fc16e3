/**
 * Scores of pairs of texts in vLLM's form.
 *
 * @module
 */
import { z } from "zod";
import { TRUNCATION_FIELDS } from "./embedding_request.ts";
import { SCORE_FIELDS } from "./rerank_request.ts";
import { integerFrom, listSchema, text } from "./fields.ts";

const MAX_PAIRS = 16_384;
const Texts = z.union([text(), listSchema(text(), { min: 1, max: MAX_PAIRS })], {
  error: "a string or an array of strings, none of them empty",
});

/** A request: one text with each of one or several, or as many on both sides. */
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
    { path: ["text_2"], error: "as many texts as text_1 has, unless that is one" },
  )
  .meta({ id: "ScoreRequest" });

/** The answer. */
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

/** The texts of one side. */
export function listTexts(texts: string | readonly string[]): readonly string[] {
  return typeof texts === "string" ? [texts] : texts;
}

export type ScoreRequest = z.output<typeof ScoreRequest>;
export type ScoreList = z.output<typeof ScoreList>;
