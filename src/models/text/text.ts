/**
 * Chat models: the common part of text and vision-language models, which turns conversations into prompts for the
 * engine, and the text generation model.
 *
 * @module
 */
import type { Decoder, DecoderLimits } from "../../decoder/decoder.ts";
import { warmUp } from "../../engine/generate.ts";
import { HearthError } from "../../base/errors.ts";
import { hasGraph, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { makeRenderOptions, toTemplateMessages } from "./chat/template_message.ts";
import {
  type ChatPrompt,
  generateChat,
  type GenerationDefaults,
  readGenerationDefaults,
} from "./chat_generation.ts";
import { loadDecoder } from "../folder/decoder_load.ts";
import { isLongText } from "./long_text_encoder.ts";
import { type Model, type OpenContext, requireTask, requireTokenIds } from "../model.ts";
import type { ChatEvent, ChatMessage, ChatTask, Conversation, RawPrompt, Task } from "../task.ts";
import { loadTokenizer, type TextTokenizer } from "./tokenizer.ts";
import type { Registry } from "prom-client";
import type { Dtype } from "../../base/config.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { GrammarCompiler } from "../../engine/grammar/compiler.ts";
import { untilAborted } from "../../base/timing.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import { wantsGrammar } from "./chat/answer_format.ts";

/** The parts of a chat model, which owns the decoder. */
export interface ChatModelParts {
  readonly decoder: Decoder;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly dtype: Dtype;
  /** Whether requests with equal prefixes share keys and values. */
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
  /** Requests that have not been submitted to the engine yet. */
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
   * Renders a task's prompt. If media must be read first or the text is long, returns a function that does that until
   * the signal is aborted.
   *
   * @throws {HearthError} when the conversation is invalid.
   */
  protected abstract toPrompt(
    task: ChatTask,
  ): ChatPrompt | ((signal: AbortSignal) => Promise<ChatPrompt>);

  /**
   * Renders a conversation as text.
   *
   * @throws {HearthError} when the conversation has parts other than text.
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

export class TextGenerationModel extends ChatModel implements Model {
  readonly kind = "text";

  /** @throws {StartupError} when a file is missing from the folder. */
  static async load(context: OpenContext): Promise<TextGenerationModel> {
    const { folder, engine: { prefixCache }, onProgress } = context;
    warnAboutMissingEncoder(folder);
    onProgress({ what: "reading the tokenizer" });
    const tokenizer = await loadTokenizer(folder);
    const generationConfig = await readOptionalJson(folder, "generation_config.json");
    const defaults = readGenerationDefaults(folder.config, generationConfig);
    const { decoder, dtype } = await loadDecoder(context);
    onProgress({ what: "warming up" });
    await warmUp(decoder);
    return new TextGenerationModel({ decoder, tokenizer, defaults, dtype, prefixCache });
  }

  override render(chat: Conversation): string {
    return renderChat(chat, this.tokenizer);
  }

  protected override toPrompt(task: ChatTask): PendingPrompt {
    const { tokenizer, engine: { limits } } = this;
    return task.raw === undefined
      ? encodeChat(task, tokenizer)
      : encodeRaw(task.raw, { tokenizer, limits });
  }
}

/** A prompt, or, for a long text, a function that encodes it while yielding to other work. */
type PendingPrompt = ChatPrompt | ((signal: AbortSignal) => Promise<ChatPrompt>);

/** Encodes a conversation as a prompt. */
function encodeChat(task: ChatTask, tokenizer: TextTokenizer): PendingPrompt {
  const text = renderChat(task, tokenizer);
  // The template has already written the special tokens.
  return encodeText(text, { tokenizer, hasSpecial: tokenizer.template === undefined });
}

function encodeText(
  text: string,
  { tokenizer, hasSpecial }: {
    readonly tokenizer: TextTokenizer;
    readonly hasSpecial: boolean;
  },
): PendingPrompt {
  const toPrompt = (ids: number[]) => ({ text, promptTokens: Int32Array.from(ids) });
  if (!isLongText(text)) {
    return toPrompt(hasSpecial ? tokenizer.encodeWhole(text) : tokenizer.encode(text));
  }
  return async (signal) =>
    toPrompt(await tokenizer.encodeInSlices(text, { hasSpecial, isPrompt: true, signal }));
}

/** Renders the prompt as text. Base models without a template get the texts of the messages, joined by line breaks. */
function renderChat(task: Conversation, { template }: TextTokenizer): string {
  const texts = task.messages.map(requireText);
  const options = makeRenderOptions(task, template);
  if (template === undefined) return texts.join("\n");
  const messages = toTemplateMessages(task.messages, (_, index) => texts[index]!);
  return template.render(messages, options);
}

/** Returns a message's text. @throws {HearthError} `unsupported_by_model` when the message has other parts than text. */
function requireText({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  const [part] = content.filter(({ type }) => type !== "text");
  throw new HearthError(
    "unsupported_by_model",
    `A text model takes only text, saw a part of type ${part?.type}.`,
  );
}

/**
 * Warns about a vision model whose download is incomplete. The folder looks like that of a text model. Served as a text
 * model, it would refuse images without giving the reason.
 */
function warnAboutMissingEncoder(folder: ModelFolder): void {
  if (!("vision_config" in folder.config) || hasGraph(folder, "vision_encoder")) return;
  log.warn(
    "a vision model is served for text only: its folder has no onnx/vision_encoder*.onnx",
    { folder: folder.path },
  );
}

/** Spellings of the tokens for prefix, suffix and middle in the models of different makers. */
const FILL_IN_MIDDLE = [
  // Qwen, CodeGemma
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
  // StarCoder, Granite
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
  // SantaCoder
  ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
  // DeepSeek
  ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
  // CodeLlama
  ["▁<PRE>", "▁<SUF>", "▁<MID>"],
] as const;

/**
 * Encodes a prompt without a chat template: a text or tokens that the model continues.
 *
 * @throws {HearthError} `unsupported_by_model` for a suffix when the tokenizer has no fill-in-the-middle tokens;
 * `invalid_value` for unknown tokens.
 */
function encodeRaw(
  { prompt, suffix, addsSpecialTokens = true }: RawPrompt,
  { tokenizer, limits }: {
    readonly tokenizer: TextTokenizer;
    readonly limits: Pick<DecoderLimits, "contextLength" | "vocabSize">;
  },
): PendingPrompt {
  if (typeof prompt !== "string") {
    requireTokenIds(prompt, limits.vocabSize, () => "prompt");
    // The engine refuses a prompt that is too long. Such a prompt is not decoded here, because that would take long.
    const text = prompt.length > limits.contextLength ? "" : tokenizer.decodeAll([...prompt]);
    return { text, promptTokens: Int32Array.from(prompt) };
  }
  if (suffix === undefined) {
    return encodeText(prompt, { tokenizer, hasSpecial: addsSpecialTokens });
  }
  const [before, between, after] = FILL_IN_MIDDLE
    .map((spellings) => spellings.map((spelling) => tokenizer.tokenToId(spelling)))
    .find((ids) => ids.every((id) => id !== undefined)) ?? [];
  if (before === undefined || between === undefined || after === undefined) {
    throw new HearthError(
      "unsupported_by_model",
      "suffix: the loaded model has no tokens for filling in the middle of a text.",
      { param: "suffix" },
    );
  }
  return async (signal) => {
    const options = { hasSpecial: false, isPrompt: true, signal };
    const promptIds = await tokenizer.encodeInSlices(prompt, options);
    const suffixIds = await tokenizer.encodeInSlices(suffix, options);
    const ids = [before, ...promptIds, between, ...suffixIds, after];
    return { text: prompt, promptTokens: Int32Array.from(ids) };
  };
}

/** Makes the grammar compiler of a model. The vocabulary is read when the first request needs it. */
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
