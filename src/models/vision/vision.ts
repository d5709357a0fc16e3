/**
 * Vision-language models: conversations with images in, text out.
 *
 * @module
 */
import { Registry } from "prom-client";
import type { ChatPrompt } from "../chat_generation.ts";
import { ChatModel, type ChatModelParts } from "../chat_model.ts";
import { renderOptions } from "../chat/render_options.ts";
import type { Model } from "../model.ts";
import { type ModelTokenizer, offerTokenizer } from "../model_tokenizer.ts";
import type { ChatTask } from "../task.ts";
import type { VisionImages } from "./vision_images.ts";
import type { VisionPrompt } from "./vision_prompt.ts";

/** The parts of a vision model; it owns all of them. */
export interface VisionModelParts extends ChatModelParts {
  readonly kind: "vision" | "ocr";
  readonly images: VisionImages;
  readonly prompt: VisionPrompt;
}

export class VisionModel extends ChatModel implements Model {
  readonly kind: "vision" | "ocr";
  override readonly metrics: Registry;
  readonly #parts: VisionModelParts;

  constructor(parts: VisionModelParts) {
    super(parts);
    this.#parts = parts;
    this.kind = parts.kind;
    this.metrics = Registry.merge([this.engine.metrics.registry, parts.images.metrics.registry]);
  }

  get tokenizer(): ModelTokenizer {
    return offerTokenizer(this.#parts.tokenizer);
  }

  override async dispose(): Promise<void> {
    await super.dispose();
    await this.#parts.images.dispose();
  }

  /** Reads the task's images first. */
  protected override promptOf(task: ChatTask): (signal: AbortSignal) => Promise<ChatPrompt> {
    const { images, prompt, tokenizer } = this.#parts;
    const parts = task.messages.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.filter((part) => part.type === "image")
    );
    const options = renderOptions(task, tokenizer.template);
    return async (signal) => {
      const opened = await Promise.all(parts.map((part) => images.open(part, signal)));
      signal.throwIfAborted();
      return prompt.build(task.messages, { ...options, images: opened });
    };
  }
}
