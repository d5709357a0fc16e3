/**
 * The answers to a chat completion request, whole and in chunks.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

const TokenLogprob = z.object({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(integerFrom(0, 255)).describe("The token's UTF-8 bytes"),
});

const ChoiceLogprobs = z.object({
  content: z.array(TokenLogprob.extend({ top_logprobs: z.array(TokenLogprob) })),
}).meta({ id: "ChoiceLogprobs" });

const FinishReason = z.enum(["stop", "length", "tool_calls"]).meta({ id: "FinishReason" });

const Usage = z.object({
  prompt_tokens: integerFrom(0),
  completion_tokens: integerFrom(0),
  total_tokens: integerFrom(0),
  prompt_tokens_details: z.object({
    cached_tokens: integerFrom(0).describe("Prompt tokens that did not have to be computed again"),
  }),
}).meta({ id: "Usage" });

const head = {
  id: z.string().describe("The same in every chunk of one stream"),
  created: integerFrom(0).describe("Seconds since 1970"),
  model: z.string(),
};

/** A whole chat completion. */
export const ChatCompletion = z.object({
  ...head,
  object: z.literal("chat.completion"),
  choices: z.array(z.object({
    index: integerFrom(0),
    message: z.object({ role: z.literal("assistant"), content: z.string() }),
    finish_reason: FinishReason,
    logprobs: ChoiceLogprobs.nullable(),
  })),
  usage: Usage,
}).meta({ id: "ChatCompletion" });

/** One chunk of a streamed chat completion. */
export const ChatChunk = z.object({
  ...head,
  object: z.literal("chat.completion.chunk"),
  choices: z.array(z.object({
    index: integerFrom(0),
    delta: z.object({ role: z.literal("assistant").optional(), content: z.string().optional() }),
    finish_reason: FinishReason.nullable(),
    logprobs: ChoiceLogprobs.optional(),
  })),
  usage: Usage.optional(),
}).meta({ id: "ChatChunk" });

/** See {@linkcode ChatCompletion}. */
export type ChatCompletion = z.output<typeof ChatCompletion>;
/** See {@linkcode ChatChunk}. */
export type ChatChunk = z.output<typeof ChatChunk>;
/** A finished choice of a {@linkcode ChatCompletion}. */
export type ChatChoice = ChatCompletion["choices"][number];
/** See {@linkcode ChatCompletion}. */
export type FinishReason = z.output<typeof FinishReason>;
/** A chosen token as OpenAI reports it. */
export type ChoiceLogprob = z.output<typeof ChoiceLogprobs>["content"][number];

/** What all chunks of a completion share. */
export interface CompletionHead {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
}

/** Tokens counted. */
export interface UsageCounts {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
}

function usage(counts: UsageCounts): z.output<typeof Usage> {
  return {
    prompt_tokens: counts.promptTokens,
    completion_tokens: counts.completionTokens,
    total_tokens: counts.promptTokens + counts.completionTokens,
    prompt_tokens_details: { cached_tokens: counts.cachedTokens },
  };
}

/** The answer that is not streamed. */
export function chatCompletion(
  head: CompletionHead,
  result: { choices: ChatChoice[]; usage: UsageCounts },
): ChatCompletion {
  return {
    id: head.id,
    object: "chat.completion",
    created: head.createdSeconds,
    model: head.model,
    choices: result.choices,
    usage: usage(result.usage),
  };
}

function chunk(head: CompletionHead, choices: ChatChunk["choices"]): ChatChunk {
  return {
    id: head.id,
    object: "chat.completion.chunk",
    created: head.createdSeconds,
    model: head.model,
    choices,
  };
}

/** A fragment of a choice; `isFirst` says whether it is the choice's first, which names the role. */
export function deltaChunk(
  head: CompletionHead,
  delta: {
    index: number;
    isFirst: boolean;
    content: string;
    logprobs?: ChoiceLogprob[] | undefined;
  },
): ChatChunk {
  const { index, isFirst, content, logprobs } = delta;
  return chunk(head, [{
    index,
    delta: isFirst ? { role: "assistant", content } : { content },
    finish_reason: null,
    ...(logprobs !== undefined && { logprobs: { content: logprobs } }),
  }]);
}

/** The last chunk of a choice. */
export function finishChunk(
  head: CompletionHead,
  finish: { index: number; reason: FinishReason },
): ChatChunk {
  return chunk(head, [{ index: finish.index, delta: {}, finish_reason: finish.reason }]);
}

/** The chunk that `stream_options.include_usage` asks for. */
export function usageChunk(head: CompletionHead, counts: UsageCounts): ChatChunk {
  return { ...chunk(head, []), usage: usage(counts) };
}
