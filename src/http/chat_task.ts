/**
 * From a chat completion request to the task for the worker.
 *
 * @module
 */
import type { ChatRequest } from "../api/chat_request.ts";
import type { ContentPart } from "../api/content_part.ts";
import { HearthError } from "../errors.ts";
import type { ModelKind } from "../config.ts";
import type { ChatMessage, ChatTask, GenerationOptions, MessagePart } from "../models/task.ts";
import type { ModelInfo } from "../worker/protocol.ts";
import { BODY_LIMITS } from "./body.ts";
import { type MediaDeps, type MediaPart, readPart } from "./media.ts";

const MIXING_FACTOR = 0x9e3779b1;
/** Kinds that take pictures. */
const SEEING: ReadonlySet<ModelKind> = new Set(["vision", "ocr"]);

/** What a task is made with, beside the request. */
export interface ChatTaskOptions extends MediaDeps {
  readonly info: ModelInfo;
  readonly requestId: string;
}

/**
 * The task of `request`, its pictures read.
 *
 * @throws {HearthError} `unsupported_by_model` when a message holds media that the model's kind cannot take;
 * `invalid_media` when one cannot be read; `payload_too_large` when they are too large together.
 */
export async function chatTask(
  request: ChatRequest,
  options: ChatTaskOptions,
): Promise<ChatTask> {
  const messages: ChatMessage[] = [];
  const meter = new MediaMeter();
  for (const [index, { role, content }] of request.messages.entries()) {
    messages.push({
      role: role === "developer" ? "system" : role,
      content: typeof content === "string"
        ? content
        : await readContent(content, { ...options, meter, param: `messages[${index}].content` }),
    });
  }
  return {
    type: "chat",
    requestId: options.requestId,
    messages,
    options: generationOptions(request),
  };
}

async function readContent(
  parts: readonly ContentPart[],
  options: ChatTaskOptions & { readonly param: string; readonly meter: MediaMeter },
): Promise<ChatMessage["content"]> {
  const read: MessagePart[] = [];
  for (const [index, part] of parts.entries()) {
    const param = `${options.param}[${index}]`;
    if (part.type === "text") read.push({ type: "text", text: part.text });
    else {
      requireSeeing(part, { info: options.info, param });
      const bytes = await readPart(part, { ...options, param });
      options.meter.add(bytes, param);
      read.push({ type: "image", bytes, param });
    }
  }
  if (read.some(({ type }) => type !== "text")) return read;
  return read.map((part) => part.type === "text" ? part.text : "").join("\n");
}

/** Adds up the media of a request: references are short, and what they name is not. */
class MediaMeter {
  #numBytes = 0;

  /** @throws {HearthError} `payload_too_large` when they are too many together. */
  add({ length }: Uint8Array, param: string): void {
    this.#numBytes += length;
    if (this.#numBytes <= BODY_LIMITS.maxBytes) return;
    throw new HearthError(
      "payload_too_large",
      `${param}: the pictures of this request have more than the ${
        BODY_LIMITS.maxBytes / 2 ** 20
      } MiB that they may have together.`,
      { param },
    );
  }
}

/** @throws {HearthError} `unsupported_by_model` unless the model can be shown this part. */
function requireSeeing(
  { type }: MediaPart,
  { info, param }: { readonly info: ModelInfo; readonly param: string },
): void {
  const sees = SEEING.has(info.kind);
  if (sees && (type === "image" || type === "image_url")) return;
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model ${info.id} (${info.kind}) takes text${
      sees ? " and images" : ""
    }, saw a part of type ${type}.`,
    { param },
  );
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
