/**
 * From a chat completion request to the task for the worker.
 *
 * @module
 */
import type { ChatRequest } from "../api/chat_request.ts";
import type { ContentPart } from "../api/content_part.ts";
import { HearthError } from "../errors.ts";
import type { ChatMessage, ChatTask, GenerationOptions } from "../models/task.ts";
import type { ModelInfo } from "../worker/protocol.ts";

const MIXING_FACTOR = 0x9e3779b1;

/**
 * The task of `request`.
 *
 * @throws {HearthError} `unsupported_by_model` when a message holds media, which a text model cannot take.
 */
export function chatTask(
  request: ChatRequest,
  { info, requestId }: { info: ModelInfo; requestId: string },
): ChatTask {
  return {
    type: "chat",
    requestId,
    messages: request.messages.map(({ role, content }, index): ChatMessage => ({
      role: role === "developer" ? "system" : role,
      content: typeof content === "string"
        ? content
        : joinText(content, { info, path: `messages[${index}].content` }),
    })),
    options: generationOptions(request),
  };
}

function joinText(
  parts: readonly ContentPart[],
  { info, path }: { info: ModelInfo; path: string },
): string {
  return parts.map((part, index) => {
    if (part.type === "text") return part.text;
    const param = `${path}[${index}]`;
    throw new HearthError(
      "unsupported_by_model",
      `${param}: the loaded model ${info.id} (${info.kind}) takes text, saw a part of type ${part.type}.`,
      { param },
    );
  }).join("\n");
}

function generationOptions(request: ChatRequest): GenerationOptions {
  const { stop } = request;
  return {
    temperature: request.temperature ?? undefined,
    topP: request.top_p ?? undefined,
    topK: request.top_k ?? undefined,
    minP: request.min_p ?? undefined,
    presencePenalty: request.presence_penalty ?? undefined,
    frequencyPenalty: request.frequency_penalty ?? undefined,
    repetitionPenalty: request.repetition_penalty ?? undefined,
    logitBias: request.logit_bias
      ? Object.entries(request.logit_bias).map(([id, bias]) => [Number(id), bias] as const)
      : undefined,
    seed: typeof request.seed === "number" ? foldSeed(request.seed) : undefined,
    maxTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    stop: typeof stop === "string" ? [stop] : stop ?? [],
    n: request.n ?? 1,
    topLogprobs: request.logprobs ? request.top_logprobs ?? 0 : undefined,
  };
}

/** 64 bits to 32; what fits into 32 stays as it is. */
function foldSeed(seed: number): number {
  const bits = BigInt.asUintN(64, BigInt(seed));
  const low = Number(bits & 0xffff_ffffn);
  const high = Number(bits >> 32n);
  return (low ^ Math.imul(high, MIXING_FACTOR)) >>> 0;
}
