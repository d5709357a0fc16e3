/**
 * Requests and responses about text, other than chat: `/completions` continues a text without a chat template;
 * `/tokenize`, `/detokenize` and `/apply-template` have the formats of vLLM and llama.cpp.
 *
 * @module
 */
import { z } from "zod";
import {
  ChatRequest,
  NO_PROMPT_LOGPROBS_IN_STREAMS,
  PromptLogprobs,
  PromptLogprobsField,
} from "./chat_request.ts";
import { anyText, flag, integerFrom, listSchema, text, tokenId, tokenLimit } from "./fields.ts";
import { TOOL_FIELDS } from "./tools_and_formats.ts";

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

// The fields of chat requests, without those about messages, tools, templates and reasoning, and those redefined below.
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
  prompt: Prompt.describe(
    "The text or texts to continue, or their token ids in the model's own tokenizer",
  ),
  suffix: anyText().nullish().describe(
    "Text after the gap, for models that can fill in the middle; an empty one counts as absent",
  ),
  max_tokens: tokenLimit(0).nullish().describe(
    `Default ${DEFAULT_MAX_TOKENS}; -1 means up to the end of the context; ` +
      "0 generates nothing, for requests that only want echo or prompt_logprobs",
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

/** Maximum number of tokens of a request to `/detokenize`. */
const MAX_TOKENS = 250_000;

const {
  messages,
  add_generation_prompt,
  continue_final_message,
  chat_template_kwargs,
  reasoning_effort,
} = ChatRequest.shape;

/** Fields of requests that render a conversation. */
const CHAT_FIELDS = {
  ...{ messages, add_generation_prompt, continue_final_message, chat_template_kwargs },
  reasoning_effort,
  ...TOOL_FIELDS,
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
};

/** A request to render a conversation. */
export const ApplyTemplateRequest = z.object(CHAT_FIELDS, { error: "a JSON object" })
  .meta({ id: "ApplyTemplateRequest" });

/** A request for the tokens of a text or a conversation. */
export const TokenizeRequest = z.object({
  ...CHAT_FIELDS,
  messages: CHAT_FIELDS.messages.optional(),
  prompt: anyText().nullish().describe("vLLM's name for the text"),
  content: anyText().nullish().describe("llama.cpp's name for the text"),
  add_special_tokens: flag().nullish().describe("vLLM's field; default true"),
  add_special: flag().nullish().describe("llama.cpp's field; default false"),
  return_token_strs: flag().nullish().describe("vLLM's field: return token_strs as well"),
  with_pieces: flag().nullish().describe(
    "llama.cpp's field: return tokens as objects with id and piece",
  ),
}, { error: "a JSON object" })
  .refine(
    ({ messages, prompt, content }) =>
      [messages, prompt, content].filter((each) => each !== undefined && each !== null).length ===
        1,
    { path: ["prompt"], error: "one of prompt, content and messages" },
  )
  .meta({
    id: "TokenizeRequest",
    oneOf: ["prompt", "content", "messages"].map((name) => ({ required: [name] })),
  });

/** A request for the text of given tokens. */
export const DetokenizeRequest = z.object({
  tokens: listSchema(tokenId(), { max: MAX_TOKENS }),
  model: z.unknown().optional(),
}, { error: "a JSON object" }).meta({ id: "DetokenizeRequest" });

/** The response of `/tokenize`. */
export const TokenizeResponse = z.object({
  count: integerFrom(0),
  max_model_len: integerFrom(1).nullable(),
  tokens: z.array(
    z.union([
      integerFrom(0),
      z.object({
        id: integerFrom(0),
        piece: z.union([z.string(), z.array(integerFrom(0, 255))])
          .describe("Text of the token; its bytes if they are not whole characters"),
      }),
    ]),
  ),
  token_strs: z.array(z.string()).nullable()
    .describe("Texts of the tokens; bytes that are not a whole character are written as \\xe2"),
}).meta({ id: "TokenizeResponse" });

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A token in llama.cpp's format: its text, or its bytes if they are not valid text. */
export function tokenPiece(bytes: readonly number[]): string | number[] {
  try {
    return decoder.decode(Uint8Array.from(bytes));
  } catch {
    return [...bytes];
  }
}

/** The response of `/detokenize`: the text under vLLM's and llama.cpp's names. */
export const DetokenizeResponse = z.object({ prompt: z.string(), content: z.string() })
  .meta({ id: "DetokenizeResponse" });

/** The response of `/apply-template`: the rendered prompt. */
export const ApplyTemplateResponse = z.object({ prompt: z.string() })
  .meta({ id: "ApplyTemplateResponse" });

export type ApplyTemplateRequest = z.output<typeof ApplyTemplateRequest>;
