/**
 * Text models: conversations in, text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Decoder } from "../decoder/decoder.ts";
import { EngineLoop } from "../engine/loop.ts";
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import type { ChatEvent, ChatMessage, ChatTask, Task } from "./task.ts";
import { Completion } from "./completion.ts";
import { choiceSeed, type GenerationDefaults, samplingOf } from "./generation_defaults.ts";
import { type Model, requireTask } from "./model.ts";
import type { TextMessage, TextTokenizer } from "./tokenizer.ts";
import type { Dtype } from "../config.ts";

/** What a text model is made of. */
export interface TextModelParts {
  readonly decoder: Decoder;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly dtype: Dtype;
  /** Whether requests share the keys and values of equal beginnings. */
  readonly prefixCache: boolean;
}

/** See the module. */
export class TextModel implements Model {
  readonly kind = "text";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly #parts: TextModelParts;
  readonly #engine: EngineLoop;

  constructor(parts: TextModelParts) {
    this.#parts = parts;
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: parts.prefixCache });
    this.dtype = parts.dtype;
    this.contextLength = this.#engine.limits.contextLength;
    this.maxSequences = this.#engine.limits.maxSequences;
  }

  get metrics(): Registry {
    return this.#engine.metrics.registry;
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const { tokenizer, defaults } = this.#parts;
    const { options } = task;
    const promptTokens = Int32Array.from(tokenizer.encodeChat(task.messages.map(requireText)));
    this.#checkLogitBias(task);

    const seed = options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
    const completion = new Completion({
      tokenizer,
      eosTokenIds: defaults.eosTokenIds,
      options,
      numPromptTokens: promptTokens.length,
      emit,
    });
    return this.#engine.add({
      promptTokens,
      samples: Array.from(
        { length: options.n },
        (_, index) => samplingOf(options, defaults, choiceSeed(seed, index)),
      ),
      maxTokens: options.maxTokens,
      logitBias: options.logitBias && new Map(options.logitBias),
      topLogprobs: options.topLogprobs ?? 0,
    }, {
      onToken: (index, token, isLast) => completion.push(index, token, isLast),
      onDone: (numCachedTokens) => completion.end(numCachedTokens),
      onError: (error) => {
        log.error("generation failed", { requestId: task.requestId, error });
        emit({ type: "error", error: HearthError.from(error).toWire() });
      },
    });
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.decoder.dispose();
  }

  #checkLogitBias({ options }: ChatTask): void {
    const { vocabSize } = this.#engine.limits;
    const outside = options.logitBias?.find(([tokenId]) => tokenId >= vocabSize);
    if (!outside) return;
    throw new HearthError(
      "invalid_value",
      `logit_bias names token ${outside[0]}; the model's vocabulary has tokens 0 to ${
        vocabSize - 1
      }.`,
      { param: `logit_bias.${outside[0]}` },
    );
  }
}

/** @throws {HearthError} `unsupported_by_model` when the message is not words alone. */
function requireText({ role, content }: ChatMessage): TextMessage {
  if (typeof content === "string") return { role, content };
  const [part] = content.filter(({ type }) => type !== "text");
  throw new HearthError(
    "unsupported_by_model",
    `A text model takes no part of type ${part?.type}.`,
  );
}
