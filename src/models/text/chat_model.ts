/**
 * The common part of text and vision-language models: conversations become prompts, which an engine continues.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../base/config.ts";
import type { Decoder } from "../../decoder/decoder.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { GrammarCompiler } from "../../engine/grammar/compiler.ts";
import { untilAborted } from "../../base/timing.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import { wantsGrammar } from "./chat/answer_format.ts";
import { type ChatPrompt, generateChat, type GenerationDefaults } from "./chat_generation.ts";
import { requireTask } from "../model.ts";
import type { ChatEvent, ChatTask, Conversation, Task } from "../task.ts";
import type { TextTokenizer } from "./tokenizer.ts";

/** The parts of a chat model. The model owns the decoder. */
export interface ChatModelParts {
  readonly decoder: Decoder;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly dtype: Dtype;
  /** Whether requests with equal prefixes share their keys and values. */
  readonly prefixCache: boolean;
}

export abstract class ChatModel {
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxModelLength: number;
  readonly maxSequences: number;
  readonly metrics: Registry;
  readonly tokenizer: TextTokenizer;
  protected readonly engine: EngineLoop;
  readonly #parts: ChatModelParts;
  readonly #grammars: GrammarCompiler;
  /** Requests that are not yet submitted to the engine. */
  readonly #opening = new ActiveRequests();

  constructor(parts: ChatModelParts) {
    const { decoder, tokenizer, defaults, dtype, prefixCache } = parts;
    this.#parts = parts;
    this.engine = new EngineLoop(decoder, { prefixCache });
    const { vocabSize, contextLength, modelLength, maxSequences } = this.engine.limits;
    this.#grammars = createGrammars({ tokenizer, vocabSize, endTokenIds: defaults.eosTokenIds });
    this.dtype = dtype;
    this.tokenizer = tokenizer;
    this.contextLength = modelLength ?? contextLength;
    this.maxModelLength = this.engine.maxSequenceLength;
    this.maxSequences = maxSequences;
    this.metrics = this.engine.metrics.registry;
  }

  /**
   * Renders a task's prompt: at once; or, if media have to be read first, as a function of the request's signal.
   *
   * @throws {HearthError} when the conversation is invalid.
   */
  protected abstract toPrompt(
    task: ChatTask,
  ): ChatPrompt | ((signal: AbortSignal) => Promise<ChatPrompt>);

  /**
   * Renders a conversation as text.
   *
   * @throws {HearthError} when it holds something that the model does not take.
   */
  abstract render(chat: Conversation): string;

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const prompt = this.toPrompt(task);
    const waits = wantsGrammar(task) && !this.#grammars.isPrepared;
    if (!waits && typeof prompt !== "function") return this.#generate(task, prompt, emit);
    return this.#opening.start({
      requestId: task.requestId,
      what: "generation",
      emit,
      answer: async (signal) => {
        const known = typeof prompt === "function" ? await prompt(signal) : prompt;
        if (waits) await untilAborted(this.#grammars.prepare(), signal);
        signal.throwIfAborted();
        signal.addEventListener("abort", this.#generate(task, known, emit), { once: true });
      },
    });
  }

  async dispose(): Promise<void> {
    this.#opening.cancel();
    await this.#opening.settle();
    await this.engine.close();
    await this.#parts.decoder.dispose();
  }

  #generate(task: ChatTask, prompt: ChatPrompt, emit: (event: ChatEvent) => void): () => void {
    const { engine, tokenizer } = this;
    const parts = { engine, tokenizer, defaults: this.#parts.defaults, grammars: this.#grammars };
    return generateChat(parts, { task, prompt, emit });
  }
}

/** Makes the compiler of a model's grammars. The vocabulary is read when the first request needs it. */
export function createGrammars({ tokenizer, vocabSize, endTokenIds }: {
  readonly tokenizer: Pick<TextTokenizer, "tokenTexts" | "idToToken" | "addedTokens">;
  readonly vocabSize: number;
  readonly endTokenIds: ReadonlySet<number>;
}): GrammarCompiler {
  const { addedTokens, tokenTexts, idToToken } = tokenizer;
  return new GrammarCompiler(() => {
    const bytes: (Uint8Array | null)[] = Array(vocabSize);
    const read = (id: number) =>
      addedTokens.get(id)?.special || idToToken(id) === undefined ? null : tokenTexts.getBytes(id);
    return {
      vocabSize,
      endTokenIds,
      getBytes: (id) => (bytes[id] ??= read(id)) ?? undefined,
      addedTokens: new Map([...addedTokens].map(([id, { content }]) => [content, id])),
    };
  });
}
