/**
 * Text models: conversations in, text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Decoder } from "../decoder/decoder.ts";
import { EngineLoop } from "../engine/loop.ts";
import { HearthError } from "../errors.ts";
import type { GrammarCompiler } from "../grammar/compiler.ts";
import { type ChatPrompt, startChat } from "./chat_generation.ts";
import { toTemplateMessages } from "./chat/template_message.ts";
import { renderOptions } from "./chat/render_options.ts";
import type { ChatEvent, ChatMessage, ChatTask, Task } from "./task.ts";
import type { GenerationDefaults } from "./generation_defaults.ts";
import { createGrammars } from "./grammar_tokens.ts";
import { type Model, requireTask } from "./model.ts";
import { type ModelTokenizer, offerTokenizer } from "./model_tokenizer.ts";
import { encodeRaw } from "./raw_prompt.ts";
import type { TextTokenizer } from "./tokenizer.ts";
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

export class TextGenerationModel implements Model {
  readonly kind = "text";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxModelLength: number;
  readonly maxSequences: number;
  readonly #parts: TextModelParts;
  readonly #engine: EngineLoop;
  readonly #grammars: GrammarCompiler;

  constructor(parts: TextModelParts) {
    this.#parts = parts;
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: parts.prefixCache });
    this.#grammars = createGrammars({
      tokenizer: parts.tokenizer,
      vocabSize: this.#engine.limits.vocabSize,
      endTokenIds: parts.defaults.eosTokenIds,
    });
    this.dtype = parts.dtype;
    this.contextLength = this.#engine.limits.contextLength;
    this.maxModelLength = this.#engine.maxSequenceLength;
    this.maxSequences = this.#engine.limits.maxSequences;
  }

  get tokenizer(): ModelTokenizer {
    const { tokenizer } = this.#parts;
    return offerTokenizer(tokenizer, (chat) => renderChat(chat, tokenizer));
  }

  get metrics(): Registry {
    return this.#engine.metrics.registry;
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const { tokenizer, defaults } = this.#parts;
    const { vocabSize } = this.#engine.limits;
    const prompt = task.raw === undefined
      ? encodeChat(task, tokenizer)
      : encodeRaw(task.raw, { tokenizer, vocabSize });
    const parts = { engine: this.#engine, tokenizer, defaults, grammars: this.#grammars };
    return startChat(parts, { task, prompt, emit });
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.decoder.dispose();
  }
}

/** A conversation as a prompt. */
function encodeChat(task: ChatTask, tokenizer: TextTokenizer): ChatPrompt {
  const text = renderChat(task, tokenizer);
  // A template has written the special tokens already.
  const ids = tokenizer.template === undefined
    ? tokenizer.encodeWhole(text)
    : tokenizer.encode(text);
  return { text, promptTokens: Int32Array.from(ids) };
}

/** The prompt as text. Without a template the messages' texts follow each other as they are, as base models have it. */
function renderChat(
  task: Pick<ChatTask, "messages" | "prompt" | "tools">,
  { template }: TextTokenizer,
): string {
  const texts = task.messages.map(requireText);
  const options = renderOptions(task, template);
  if (template === undefined) return texts.join("\n");
  const messages = toTemplateMessages(task.messages, (_, index) => texts[index]!);
  return template.render(messages, options);
}

/** @throws {HearthError} `unsupported_by_model` when the message is not words alone. */
function requireText({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  const [part] = content.filter(({ type }) => type !== "text");
  throw new HearthError(
    "unsupported_by_model",
    `A text model takes no part of type ${part?.type}.`,
  );
}
