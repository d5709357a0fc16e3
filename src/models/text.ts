/**
 * Text models: conversations in, text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Decoder } from "../decoder/decoder.ts";
import { EngineLoop } from "../engine/loop.ts";
import { HearthError } from "../errors.ts";
import { generateChat } from "./chat_generation.ts";
import type { ChatEvent, ChatMessage, Task } from "./task.ts";
import type { GenerationDefaults } from "./generation_defaults.ts";
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
    const promptTokens = Int32Array.from(tokenizer.encodeChat(task.messages.map(requireText)));
    const parts = { engine: this.#engine, tokenizer, defaults };
    return generateChat(parts, { task, prompt: { promptTokens }, emit });
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.decoder.dispose();
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
