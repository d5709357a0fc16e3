/**
 * The body of a request to `/completions`: text that goes on, without a chat template.
 *
 * @module
 */
import { z } from "zod";
import { ChatRequest } from "./chat_request.ts";
import { flag, integerFrom, listOf, text } from "./fields.ts";

const MAX_PROMPTS = 256;
/** OpenAI's. */
export const DEFAULT_MAX_TOKENS = 16;

const promptWanted =
  "a string, an array of strings, an array of token ids or an array of such arrays, none of them empty";
const TokenIds = listOf(integerFrom(0, 2 ** 31 - 1), { min: 1 });
const many = { min: 1, max: MAX_PROMPTS };
const Prompt = z.union([text(), listOf(text(), many), TokenIds, listOf(TokenIds, many)], {
  error: promptWanted,
});

const notServed = (wanted: string) =>
  z.null({ error: `nothing, as it is not served; ${wanted}` }).optional();

// All that chat has to say of sampling, and of what the answer must look like.
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
  chat_template_kwargs: _variables,
  logprobs: _logprobs,
  top_logprobs: _top,
  ...SAMPLING_FIELDS
} = ChatRequest.shape;

/** A completion request. `null` stands for an absent field; fields not named here are ignored. */
export const CompletionsRequest = z.object({
  ...SAMPLING_FIELDS,
  prompt: Prompt.describe("The text or texts to go on from; as token ids, those of the model"),
  suffix: text().nullish()
    .describe("What follows what is to be filled in, for models that can fill in the middle"),
  max_tokens: integerFrom(1).nullish().describe(`Default ${DEFAULT_MAX_TOKENS}`),
  logprobs: integerFrom(0, 20).nullish()
    .describe("Report the log-probability of each token, and of as many of the most likely"),
  echo: flag().nullish().describe("Put the prompt before its completion"),
  best_of: integerFrom(1).nullish(),
  prompt_logprobs: notServed("log-probabilities of the completion come with logprobs"),
}, { error: "a JSON object" })
  .refine(({ best_of: best, n }) => !best || best === (n ?? 1), {
    path: ["best_of"],
    error: "the value of n, as completions are not weighed against each other",
  })
  .refine(({ echo, logprobs }) => !echo || (logprobs ?? null) === null, {
    path: ["echo"],
    error: "false beside logprobs, as those of the prompt are not served",
  })
  .meta({ id: "CompletionsRequest" });

/** See {@linkcode CompletionsRequest}. */
export type CompletionsRequest = z.output<typeof CompletionsRequest>;
