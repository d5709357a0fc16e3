/**
 * Models that see: conversations with images in, text out.
 *
 * @module
 */
import { Registry } from "prom-client";
import type { Dtype } from "../../config.ts";
import type { Decoder } from "../../decoder/decoder.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { GrammarCompiler } from "../../grammar/compiler.ts";
import { emitError, startChat } from "../chat_generation.ts";
import { renderOptions } from "../chat/render_options.ts";
import type { GenerationDefaults } from "../generation_defaults.ts";
import { createGrammars } from "../grammar_tokens.ts";
import { type Model, requireTask } from "../model.ts";
import { type ModelTokenizer, offerTokenizer } from "../model_tokenizer.ts";
import type { ChatEvent, ChatTask, Task } from "../task.ts";
import type { TextTokenizer } from "../tokenizer.ts";
import type { VisionImages } from "./vision_images.ts";
import type { VisionPrompt } from "./vision_prompt.ts";

/** What a vision model is made of; it owns all of it. */
export interface VisionModelParts {
  readonly kind: "vision" | "ocr";
  readonly decoder: Decoder;
  readonly images: VisionImages;
  readonly prompt: VisionPrompt;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly dtype: Dtype;
  /** Whether requests share the keys and values of equal beginnings, images included. */
  readonly prefixCache: boolean;
}

export class VisionModel implements Model {
  readonly kind: "vision" | "ocr";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxModelLength: number;
  readonly maxSequences: number;
  readonly metrics: Registry;
  readonly #parts: VisionModelParts;
  readonly #engine: EngineLoop;
  readonly #grammars: GrammarCompiler;
  /** Requests whose images are being read. */
  readonly #opening = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(parts: VisionModelParts) {
    this.#parts = parts;
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: parts.prefixCache });
    this.#grammars = createGrammars({
      tokenizer: parts.tokenizer,
      vocabSize: this.#engine.limits.vocabSize,
      endTokenIds: parts.defaults.eosTokenIds,
    });
    this.kind = parts.kind;
    this.dtype = parts.dtype;
    this.contextLength = this.#engine.limits.contextLength;
    this.maxModelLength = this.#engine.maxSequenceLength;
    this.maxSequences = this.#engine.limits.maxSequences;
    this.metrics = Registry.merge([
      this.#engine.metrics.registry,
      parts.images.metrics.registry,
    ]);
  }

  get tokenizer(): ModelTokenizer {
    return offerTokenizer(this.#parts.tokenizer);
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const abort = new AbortController();
    const opening = this.#open(task, { emit, signal: abort.signal });
    this.#opening.add(opening);
    opening.finally(() => this.#opening.delete(opening));
    return () => abort.abort();
  }

  async dispose(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#opening);
    await this.#engine.close();
    await this.#parts.decoder.dispose();
    await this.#parts.images.dispose();
  }

  /** Reads a request's images and queues it. @param options.signal ends it, now or later. */
  async #open(
    task: ChatTask,
    { emit, signal: ended }: { emit: (event: ChatEvent) => void; signal: AbortSignal },
  ): Promise<void> {
    const { images, prompt, tokenizer } = this.#parts;
    const signal = AbortSignal.any([ended, this.#closing.signal]);
    const parts = task.messages.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.filter((part) => part.type === "image")
    );
    try {
      const options = renderOptions(task, tokenizer.template);
      const opened = await Promise.all(parts.map((part) => images.open(part, signal)));
      signal.throwIfAborted();
      const made = prompt.build(task.messages, { ...options, images: opened });
      const generating = { ...this.#parts, engine: this.#engine, grammars: this.#grammars };
      const end = startChat(generating, { task, prompt: made, emit });
      ended.addEventListener("abort", end, { once: true });
    } catch (error) {
      if (!signal.aborted) emitError(error, { task, emit });
    }
  }
}
