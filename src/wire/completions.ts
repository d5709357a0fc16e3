/**
 * The body of a request to `/completions`: text to continue, without a chat template.
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
/** OpenAI's. */
const MAX_BEST_OF = 20;
/** OpenAI's. */
export const DEFAULT_MAX_TOKENS = 16;

const promptWanted =
  "a string, an array of strings, an array of token ids or an array of such arrays, none of them empty";
const TokenIds = listSchema(tokenId(), { min: 1 });
const many = { min: 1, max: MAX_PROMPTS };
const Prompt = z.union([text(), listSchema(text(), many), TokenIds, listSchema(TokenIds, many)], {
  error: promptWanted,
});

// The sampling and structured-output fields of chat requests.
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

/** A completion request. `null` stands for an absent field; fields not named here are ignored. */
export const CompletionsRequest = z.object({
  ...SAMPLING_FIELDS,
  prompt: Prompt.describe("The text or texts to continue; token ids are the model's"),
  suffix: text().nullish()
    .describe("What follows what is to be filled in, for models that can fill in the middle"),
  max_tokens: tokenLimit(0).nullish().describe(
    `Default ${DEFAULT_MAX_TOKENS}; -1 to the end of the context; ` +
      "0 for no completion: for the prompt alone, with echo or prompt_logprobs",
  ),
  logprobs: integerFrom(0, 20).nullish()
    .describe("Report the log-probability of each token, and of as many of the most likely"),
  add_special_tokens: flag().nullish()
    .describe("Whether the tokenizer's special tokens, such as BOS, stand around it; default true"),
  echo: flag().nullish().describe("Put the prompt before its completion"),
  best_of: integerFrom(1, MAX_BEST_OF).nullish()
    .describe("Generate so many, and give the n of the highest mean log-probability"),
  prompt_logprobs: PromptLogprobsField,
}, { error: "a JSON object" })
  .refine(({ best_of: best, n }) => (best ?? Infinity) >= (n ?? 1), {
    path: ["best_of"],
    error: "no less than n",
  })
  .refine(({ best_of: best, n, stream }) => !stream || (best ?? 1) <= (n ?? 1), {
    path: ["best_of"],
    error: "the value of n in a stream, as the best are known in the end",
  })
  .refine(...NO_PROMPT_LOGPROBS_IN_STREAMS)
  .meta({ id: "CompletionsRequest" });

export type CompletionsRequest = z.output<typeof CompletionsRequest>;

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
