/**
 * The answers to a completion request, whole and in chunks.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import { PromptLogprobs } from "./prompt_logprobs.ts";

const Logprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number().nullable()).describe("null for the first token of all"),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
  text_offset: z.array(integerFrom(0)),
});

/** A completion, or a chunk of one. */
export const TextCompletion = z.object({
  id: z.string(),
  object: z.literal("text_completion"),
  created: integerFrom(0).describe("Seconds since 1970"),
  model: z.string(),
  choices: z.array(z.object({
    index: integerFrom(0).describe("Of prompt p and its choice c: p × n + c"),
    text: z.string(),
    logprobs: Logprobs.nullable(),
    prompt_logprobs: PromptLogprobs.optional(),
    finish_reason: z.enum(["stop", "length"]).nullable(),
  })),
  usage: z.object({
    prompt_tokens: integerFrom(0),
    completion_tokens: integerFrom(0),
    total_tokens: integerFrom(0),
    prompt_tokens_details: z.object({ cached_tokens: integerFrom(0) }).optional(),
  }).optional(),
}).meta({ id: "TextCompletion" });

export type TextCompletion = z.output<typeof TextCompletion>;
/** Log-probabilities in the form of completions. */
export type CompletionLogprobs = z.output<typeof Logprobs>;
