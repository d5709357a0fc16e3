/**
 * The responses to a chat completion request, whole or in chunks. Endpoints that take `messages` and create an image or
 * audio answer in the same format, with the file in place of the text.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import { PromptLogprobs } from "./chat_request.ts";

export const TokenLogprob = z.object({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(integerFrom(0, 255)).describe("The token's UTF-8 bytes"),
});

const ChoiceLogprobs = z.object({
  content: z.array(TokenLogprob.extend({ top_logprobs: z.array(TokenLogprob) })),
}).meta({ id: "ChoiceLogprobs" });

const FinishReason = z.enum(["stop", "length", "tool_calls", "function_call"]).meta({
  id: "FinishReason",
});

const Usage = z.object({
  prompt_tokens: integerFrom(0),
  completion_tokens: integerFrom(0),
  total_tokens: integerFrom(0),
  prompt_tokens_details: z.object({
    cached_tokens: integerFrom(0).describe("Prompt tokens that did not have to be computed again"),
    audio_tokens: integerFrom(0).optional().describe("Prompt tokens that stand for audio"),
  }),
  completion_tokens_details: z.object({
    reasoning_tokens: integerFrom(0).describe("Completion tokens of the model's reasoning"),
  }).optional(),
}).meta({ id: "Usage" });

const FunctionCall = z.object({ name: z.string(), arguments: z.string() });

const ToolCall = z.object({
  id: z.string(),
  type: z.literal("function"),
  function: FunctionCall,
});

const reasoningFields = {
  reasoning_content: z.string().optional().describe("The model's reasoning, if any"),
  reasoning: z.string().optional()
    .describe(
      "The reasoning, in place of reasoning_content, if --reasoning-field chooses this name",
    ),
};

const Message = z.object({
  role: z.literal("assistant"),
  content: z.string().nullable().describe("null if the model only called functions"),
  ...reasoningFields,
  tool_calls: z.array(ToolCall).optional(),
  function_call: FunctionCall.optional().meta({ deprecated: true }),
});

const Delta = z.object({
  role: z.literal("assistant").optional(),
  content: z.string().nullable().optional(),
  ...reasoningFields,
  tool_calls: z.array(z.object({
    index: integerFrom(0),
    id: z.string().optional(),
    type: z.literal("function").optional(),
    function: FunctionCall.partial(),
  })).optional(),
  function_call: FunctionCall.partial().optional().meta({ deprecated: true }),
});

const head = {
  id: z.string().describe("The same in every chunk of one stream"),
  created: integerFrom(0).describe("Seconds since 1970"),
  model: z.string(),
};

export const ChatCompletion = z.object({
  ...head,
  object: z.literal("chat.completion"),
  choices: z.array(z.object({
    index: integerFrom(0),
    message: Message,
    finish_reason: FinishReason,
    logprobs: ChoiceLogprobs.nullable(),
  })),
  usage: Usage,
  prompt_logprobs: PromptLogprobs.optional(),
}).meta({ id: "ChatCompletion" });

/** One chunk of a streamed chat completion. */
export const ChatChunk = z.object({
  ...head,
  object: z.literal("chat.completion.chunk"),
  choices: z.array(z.object({
    index: integerFrom(0),
    delta: Delta,
    finish_reason: FinishReason.nullable(),
    logprobs: ChoiceLogprobs.optional(),
  })),
  usage: Usage.partial({ prompt_tokens_details: true }).optional(),
}).meta({ id: "ChatChunk" });

export type ChatCompletion = z.output<typeof ChatCompletion>;
export type ChatChunk = z.output<typeof ChatChunk>;
/** A finished choice of a {@linkcode ChatCompletion}. */
export type ChatChoice = ChatCompletion["choices"][number];
export type ChatMessage = z.output<typeof Message>;
/** The part of a choice that a {@linkcode ChatChunk} adds. */
export type ChatDelta = z.output<typeof Delta>;
export type FinishReason = z.output<typeof FinishReason>;
/** A chosen token as OpenAI reports it. */
export type ChoiceLogprob = z.output<typeof ChoiceLogprobs>["content"][number];

/** The fields that all chunks of a completion share. */
export type CompletionHead = Pick<ChatCompletion, "id" | "created" | "model">;

interface UsageCounts {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  /** Prompt tokens that stand for audio; absent if there are none. */
  readonly audioTokens?: number | undefined;
  /** Tokens of the model's reasoning; absent if it does not reason. */
  readonly reasoningTokens?: number | undefined;
}

/**
 * Builds the usage so far, for a chunk of a stream that asks for it.
 *
 * @param completionTokens number of tokens so far in the choice that the chunk adds to.
 */
export function makeRunningUsage(
  promptTokens: number,
  completionTokens: number,
): NonNullable<ChatChunk["usage"]> {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}

function makeUsage(counts: UsageCounts): z.output<typeof Usage> {
  return {
    prompt_tokens: counts.promptTokens,
    completion_tokens: counts.completionTokens,
    total_tokens: counts.promptTokens + counts.completionTokens,
    prompt_tokens_details: {
      cached_tokens: counts.cachedTokens,
      ...(counts.audioTokens !== undefined && { audio_tokens: counts.audioTokens }),
    },
    ...(counts.reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: counts.reasoningTokens },
    }),
  };
}

/** Builds the response to a request that is not streamed. */
export function makeChatCompletion(
  head: CompletionHead,
  result: Pick<ChatCompletion, "choices" | "prompt_logprobs"> & { readonly usage: UsageCounts },
): ChatCompletion {
  return { ...head, object: "chat.completion", ...result, usage: makeUsage(result.usage) };
}

function makeChunk(head: CompletionHead, choices: ChatChunk["choices"]): ChatChunk {
  return { ...head, object: "chat.completion.chunk", choices };
}

/** Builds a chunk that adds to a choice. */
export function makeDeltaChunk(
  head: CompletionHead,
  { index, delta, logprobs }: {
    readonly index: number;
    readonly delta: ChatDelta;
    readonly logprobs?: ChoiceLogprob[] | undefined;
  },
): ChatChunk {
  return makeChunk(head, [{
    index,
    delta,
    finish_reason: null,
    ...(logprobs !== undefined && { logprobs: { content: logprobs } }),
  }]);
}

/** Builds a chunk that adds nothing, which keeps a connection open. */
export function makeEmptyChunk(head: CompletionHead): ChatChunk {
  return makeChunk(head, [{ index: 0, delta: {}, finish_reason: null }]);
}

/** Builds the last chunk of a choice. */
export function makeFinishChunk(
  head: CompletionHead,
  finish: { index: number; reason: FinishReason },
): ChatChunk {
  return makeChunk(head, [{ index: finish.index, delta: {}, finish_reason: finish.reason }]);
}

/** Builds the chunk that `stream_options.include_usage` asks for. */
export function makeUsageChunk(head: CompletionHead, counts: UsageCounts): ChatChunk {
  return { ...makeChunk(head, []), usage: makeUsage(counts) };
}

/** Builds the head of a new completion by `model`. */
export function makeCompletionHead(model: string): CompletionHead {
  return {
    id: `chatcmpl-${crypto.randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    model,
  };
}

const ImageContent = z.object({
  type: z.literal("image"),
  image_url: z.object({ url: z.string().describe("A data: URL of a PNG file") }),
}).meta({ id: "ImageContent" });

const AudioContent = z.object({
  type: z.literal("audio"),
  audio_url: z.object({ url: z.string().describe("A data: URL of an audio file") }),
}).meta({ id: "AudioContent" });

/** A completion that holds an image. */
export const ImageCompletion = makeCompletionSchema(ImageContent).meta({ id: "ImageCompletion" });

/** A completion that holds speech. */
export const AudioCompletion = makeCompletionSchema(AudioContent).meta({ id: "AudioCompletion" });

export type ImageCompletion = z.output<typeof ImageCompletion>;

export type AudioCompletion = z.output<typeof AudioCompletion>;

/** Builds a completion that holds a PNG file. */
export function makeImageCompletion(head: CompletionHead, png: Uint8Array): ImageCompletion {
  const url = `data:image/png;base64,${png.toBase64()}`;
  return makeCompletion(head, { content: { type: "image", image_url: { url } }, numTokens: 0 });
}

/** Builds a completion that holds an audio file. @param speech.numTokens tokens of the text. */
export function makeAudioCompletion(
  head: CompletionHead,
  speech: {
    readonly file: Uint8Array;
    readonly contentType: string;
    readonly numTokens: number;
  },
): AudioCompletion {
  const { file, contentType, numTokens } = speech;
  const url = `data:${contentType.replaceAll(" ", "")};base64,${file.toBase64()}`;
  return makeCompletion(head, { content: { type: "audio", audio_url: { url } }, numTokens });
}

function makeCompletionSchema<T extends z.ZodType>(content: T) {
  return z.object({
    id: z.string(),
    object: z.literal("chat.completion"),
    created: integerFrom(0).describe("Seconds since 1970"),
    model: z.string(),
    choices: z.array(z.object({
      index: integerFrom(0),
      message: z.object({ role: z.literal("assistant"), content: z.array(content) }),
      finish_reason: z.literal("stop"),
    })),
    usage: z.object({
      prompt_tokens: integerFrom(0),
      completion_tokens: integerFrom(0),
      total_tokens: integerFrom(0),
    }).describe("Tokens of text; images and audio do not count as tokens"),
  });
}

function makeCompletion<Content>(
  head: CompletionHead,
  { content, numTokens }: { readonly content: Content; readonly numTokens: number },
) {
  return {
    ...head,
    object: "chat.completion" as const,
    choices: [{
      index: 0,
      message: { role: "assistant" as const, content: [content] },
      finish_reason: "stop" as const,
    }],
    usage: { prompt_tokens: numTokens, completion_tokens: 0, total_tokens: numTokens },
  };
}
