/**
 * The body of a chat completion request, and the log-probabilities of prompts in vLLM's format.
 *
 * @module
 */
import { z } from "zod";
import { ChatMessage } from "./chat_message.ts";
import {
  flag,
  integerFrom,
  listSchema,
  numberFrom,
  openObject,
  orText,
  stopField,
  text,
  tokenId,
  tokenLimit,
} from "./fields.ts";
import { EffortField, findOtherLimit, type LimitSpellings, SPELLINGS } from "./spellings.ts";
import { STRUCTURED_OUTPUT, TOOL_FIELDS } from "./tools_and_formats.ts";

const MAX_MESSAGES = 4096;
const MAX_CHOICES = 16;
const MAX_STOP_TOKENS = 64;
const MAX_TOP_LOGPROBS = 20;
const MAX_LOGIT_BIAS = 100;
const TOKEN_ID = /^\d{1,9}$/;

const REASONING_FORMATS = [
  "auto",
  "deepseek",
  "deepseek-legacy",
  "parsed",
  "none",
  "raw",
  "hidden",
] as const;

const biasWanted =
  `an object from token ids to numbers from -${MAX_LOGIT_BIAS} to ${MAX_LOGIT_BIAS}`;

/** Keeps only the first bad entry, if there is one, for the reason that `cutAtFirstBad` gives. */
function keepFirstBadBias(given: unknown): unknown {
  // Lua and PHP write an empty object as an empty array.
  const value = Array.isArray(given) && given.length === 0 ? {} : given;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const isGood = ([id, bias]: [string, unknown]) =>
    TOKEN_ID.test(id) && typeof bias === "number" && Math.abs(bias) <= MAX_LOGIT_BIAS;
  const bad = Object.entries(value).find((entry) => !isGood(entry));
  return bad === undefined ? value : Object.fromEntries([bad]);
}

const LogitBias = z.preprocess(
  keepFirstBadBias,
  z.record(
    z.string().regex(TOKEN_ID, { error: "a token id as name" }),
    numberFrom(-MAX_LOGIT_BIAS, MAX_LOGIT_BIAS),
    { error: biasWanted },
  ),
);

const seedWanted = "a whole number of 64 bits";
const Seed = orText(
  z.number({ error: seedWanted })
    .min(-(2 ** 63), { error: seedWanted })
    .max(2 ** 64, { error: seedWanted })
    .refine(Number.isInteger, { error: seedWanted }),
);

export const PromptLogprobsField = integerFrom(0, 20).nullish().describe(
  "Report the log-probability of each token of the prompt, and of this many of the most likely tokens",
);

/** Refines a schema: refuses `prompt_logprobs` in streams, whose chunks have no field for them. */
export const NO_PROMPT_LOGPROBS_IN_STREAMS = [
  ({ prompt_logprobs: top, stream }: PromptLogprobsRequest) => !stream || typeof top !== "number",
  { path: ["prompt_logprobs"], error: "no value in a stream, which cannot report them" },
] satisfies [unknown, unknown];

interface PromptLogprobsRequest {
  readonly prompt_logprobs?: number | null | undefined;
  readonly stream?: boolean | null | undefined;
}

/** A chat completion request. `null` counts as absent; unknown fields are ignored. */
export const ChatRequest = z.object({
  model: text("the name of the loaded model").describe(
    "The loaded model's id, alias or owner/name",
  ),
  messages: listSchema(ChatMessage, { min: 1, max: MAX_MESSAGES }).describe(
    "The conversation so far",
  ),
  temperature: numberFrom(0, 2).nullish()
    .describe("0 always takes the most likely token; default 1, or the model's own"),
  top_p: numberFrom(0, 1).nullish().describe("Default 1, or the model's own"),
  top_k: integerFrom(-1).nullish().describe("0 and -1 are off; default off, or the model's own"),
  min_p: numberFrom(0, 1).nullish().describe("Default 0, or the model's own"),
  max_tokens: tokenLimit(0).nullish()
    .describe(
      "Maximum number of tokens to generate; up to the end of the context if absent, 0 or -1",
    ),
  max_completion_tokens: tokenLimit(0).nullish().describe(
    "The newer name of max_tokens; it overrides max_tokens",
  ),
  stop: stopField().nullish().describe("The completion ends before the first of these"),
  include_stop_str_in_output: flag().nullish()
    .describe("Keep the stop string or token at the end of the text; default false"),
  skip_special_tokens: flag().nullish()
    .describe("Whether special tokens are left out of the text; default true"),
  stop_token_ids: listSchema(tokenId(), { max: MAX_STOP_TOKENS }).nullish()
    .describe("Tokens that end the completion besides the model's own"),
  min_tokens: integerFrom(0).nullish()
    .describe(
      "The completion does not end before it has this many tokens, unless the context is full",
    ),
  ignore_eos: flag().nullish().describe("Continue past the model's end-of-sequence token"),
  add_generation_prompt: flag().nullish()
    .describe(
      "Whether the prompt ends with the beginning of the assistant's message; default true",
    ),
  continue_final_message: flag().nullish()
    .describe("Continue the text of the last message instead of answering it"),
  seed: Seed.nullish().meta({
    type: ["integer", "null"],
    description: "The same seed gives the same tokens; -1 means a random seed",
  }),
  n: integerFrom(1, MAX_CHOICES).nullish().describe("Completions to generate; default 1"),
  presence_penalty: numberFrom(-2, 2).nullish().describe("Default 0"),
  frequency_penalty: numberFrom(-2, 2).nullish().describe("Default 0"),
  repetition_penalty: numberFrom(0.01, 2).nullish().describe(
    "1 is off; default 1, or the model's own",
  ),
  logit_bias: LogitBias.nullish().describe("Values to add to the logits of tokens, by token id"),
  logprobs: flag().nullish().describe("Report the log-probability of each token; default false"),
  top_logprobs: integerFrom(0, MAX_TOP_LOGPROBS).nullish()
    .describe("How many of the most likely tokens to report for each token; needs logprobs"),
  prompt_logprobs: PromptLogprobsField,
  ...STRUCTURED_OUTPUT,
  ...TOOL_FIELDS,
  ...SPELLINGS,
  reasoning_effort: EffortField
    .describe("none turns thinking off if the model's chat template can; other values turn it on"),
  include_reasoning: flag().nullish()
    .describe(
      "Whether the answer includes the model's reasoning, as reasoning_content; default true",
    ),
  reasoning_format: z.enum(REASONING_FORMATS, {
    error: `one of ${REASONING_FORMATS.join(", ")}`,
  }).nullish().describe(
    "none and raw leave the reasoning in the text, between <think> and </think>; hidden removes it",
  ),
  separate_reasoning: flag().nullish()
    .describe("SGLang's field: false means reasoning_format none; default true"),
  chat_template_kwargs: openObject("an object").nullish()
    .describe("Variables of the model's chat template, such as enable_thinking"),
  stream: flag().nullish().describe("Answer as server-sent events; default false"),
  stream_options: z.object({
    include_usage: flag().nullish(),
    continuous_usage_stats: flag().nullish(),
  }, { error: "an object" }).nullish().describe(
    "include_usage adds a last chunk with the usage; continuous_usage_stats then also adds the usage so far to each chunk",
  ),
}, { error: "a JSON object" })
  .refine(({ top_logprobs: top, logprobs }) => !top || logprobs === true, {
    path: ["top_logprobs"],
    error: "logprobs to be true as well",
  })
  .refine(
    (request) => (request.min_tokens ?? 0) <= (readMaxTokens(request) ?? Infinity),
    {
      path: ["min_tokens"],
      error: "no more than max_tokens",
    },
  )
  .refine(
    ({ continue_final_message: goesOn, add_generation_prompt: begins }) => !goesOn || !begins,
    {
      path: ["continue_final_message"],
      error: "false, or add_generation_prompt to be false as well",
    },
  )
  .refine(...NO_PROMPT_LOGPROBS_IN_STREAMS)
  .meta({ id: "ChatRequest" });

export type ChatRequest = z.output<typeof ChatRequest>;

/** Maximum number of tokens that a chat may generate; `undefined` for no limit. */
export function readMaxTokens(request: LimitFields): number | undefined {
  const limit = request.max_completion_tokens ?? request.max_tokens ?? findOtherLimit(request) ?? 0;
  return limit > 0 ? limit : undefined;
}

interface LimitFields extends LimitSpellings {
  readonly max_tokens?: number | null | undefined;
  readonly max_completion_tokens?: number | null | undefined;
}

/** How many of the most likely tokens to report for each token; `undefined` for no log-probabilities. */
export function readTopLogprobs(
  { logprobs, top_logprobs: top, n_probs: older }: Partial<
    Pick<ChatRequest, "logprobs" | "top_logprobs" | "n_probs">
  >,
): number | undefined {
  if (logprobs) return top ?? 0;
  return older ? Math.min(older, MAX_TOP_LOGPROBS) : undefined;
}

/** Whether each chunk of a stream carries the usage so far. As in vLLM, this also requires `include_usage`. */
export function wantsRunningUsage(
  { stream_options: options }: Pick<ChatRequest, "stream_options">,
): boolean {
  return options?.include_usage === true && options.continuous_usage_stats === true;
}

/** The number that vLLM and OpenAI write for minus infinity, which JSON lacks. */
const LOWEST = -9999;

/**
 * For each token of the prompt, the log-probabilities of that token and of the most likely ones, by token id; `null`
 * for the first token.
 */
export const PromptLogprobs = z.array(
  z.record(
    z.string(),
    z.object({
      logprob: z.number(),
      rank: integerFrom(1).nullable().describe(
        "1 for the most likely; null for a prompt token that is not among the most likely ones",
      ),
      decoded_token: z.string(),
    }),
  ).nullable(),
);

/** A token as the model reports it. */
interface ScoredToken {
  readonly id: number;
  readonly token: string;
  /** Absent for the first token of the prompt. */
  readonly logprob?: number | undefined;
}

/**
 * Describes the log-probabilities of a prompt.
 *
 * @param numTop how many of the most likely tokens to describe at each position.
 */
export function makePromptLogprobs(
  tokens: readonly (ScoredToken & { readonly top: readonly ScoredToken[] })[],
  numTop: number,
): z.output<typeof PromptLogprobs> {
  return tokens.map(({ id, token, logprob, top }) => {
    if (logprob === undefined) return null;
    const position = top.findIndex((rival) => rival.id === id);
    const own = { id, token, logprob, rank: position < 0 ? null : position + 1 };
    const rivals = top.slice(0, numTop).map((rival, index) => ({ ...rival, rank: index + 1 }));
    return Object.fromEntries([own, ...rivals].map(({ id, token, logprob = LOWEST, rank }) => [
      `${id}`,
      { logprob: Math.max(logprob, LOWEST), rank, decoded_token: token },
    ]));
  });
}
