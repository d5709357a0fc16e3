/**
 * The body of a request to `/completions`: text to continue without a chat template.
 *
 * @module
 */
import { z } from "zod";
import { ChatRequest } from "./chat_request.ts";
import { flag, integerFrom, listSchema, text, tokenId, tokenLimit } from "./fields.ts";
import {
  NO_PROMPT_LOGPROBS_IN_STREAMS,
  PromptLogprobs,
  PromptLogprobsField,
} from "./prompt_logprobs.ts";

const MAX_PROMPTS = 256;
/** OpenAI's limit. */
const MAX_BEST_OF = 20;
/** OpenAI's default. */
export const DEFAULT_MAX_TOKENS = 16;

const promptWanted =
  "a string, an array of strings, an array of token ids or an array of such arrays, none of them empty";
const TokenIds = listSchema(tokenId(), { min: 1 });
const many = { min: 1, max: MAX_PROMPTS };
const Prompt = z.union([text(), listSchema(text(), many), TokenIds, listSchema(TokenIds, many)], {
  error: promptWanted,
});

// Sampling and structured-output fields shared with chat requests.
const {
  messages: _messages,
  tools: _tools,
  tool_choice: _choice,
  parallel_tool_calls: _parallel,
  functions: _functions,
  function_call: _call,
  add_generation_prompt: _begins,
  continue_final_message: _goesOn,
  max_completion_tokens: _newer,
  reasoning_effort: _effort,
  include_reasoning: _includes,
  reasoning_format: _format,
  separate_reasoning: _separates,
  enable_thinking: _enables,
  think: _think,
  thinking: _thinking,
  reasoning: _reasoning,
  thinking_budget: _budget,
  thinking_budget_tokens: _budgetTokens,
  thinking_token_budget: _tokenBudget,
  chat_template_kwargs: _variables,
  logprobs: _logprobs,
  top_logprobs: _top,
  ...SAMPLING_FIELDS
} = ChatRequest.shape;

/** A completion request. `null` counts as absent; unknown fields are ignored. */
export const CompletionsRequest = z.object({
  ...SAMPLING_FIELDS,
  prompt: Prompt.describe("The text or texts to continue; token ids are the model's"),
  suffix: text().nullish()
    .describe("Text after the gap, for models that can fill in the middle"),
  max_tokens: tokenLimit(0).nullish().describe(
    `Default ${DEFAULT_MAX_TOKENS}; -1 means up to the end of the context; ` +
      "0 generates nothing and is for echo or prompt_logprobs of the prompt",
  ),
  logprobs: integerFrom(0, 20).nullish()
    .describe(
      "Report the log-probability of each token, and of this many of the most likely tokens",
    ),
  add_special_tokens: flag().nullish()
    .describe(
      "Whether to add the tokenizer's special tokens, such as BOS, to the prompt; default true",
    ),
  echo: flag().nullish().describe("Put the prompt before its completion"),
  best_of: integerFrom(1, MAX_BEST_OF).nullish()
    .describe(
      "Generate this many completions, and return the n with the highest mean log-probability",
    ),
  prompt_logprobs: PromptLogprobsField,
}, { error: "a JSON object" })
  .refine(({ best_of: best, n }) => (best ?? Infinity) >= (n ?? 1), {
    path: ["best_of"],
    error: "no less than n",
  })
  .refine(({ best_of: best, n, stream }) => !stream || (best ?? 1) <= (n ?? 1), {
    path: ["best_of"],
    error: "the value of n in a stream, because the best are only known at the end",
  })
  .refine(...NO_PROMPT_LOGPROBS_IN_STREAMS)
  .meta({ id: "CompletionsRequest" });

export type CompletionsRequest = z.output<typeof CompletionsRequest>;

const Logprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number().nullable()).describe("null for the first token of a text"),
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
    index: integerFrom(0).describe("p × n + c for choice c of prompt p"),
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
/** Log-probabilities in the format of completions. */
export type CompletionLogprobs = z.output<typeof Logprobs>;
