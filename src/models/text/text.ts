/**
 * Text generation models: conversations in, text out.
 *
 * @module
 */
import type { DecoderLimits } from "../../decoder/decoder.ts";
import { warmUp } from "../../engine/generate.ts";
import { HearthError } from "../../base/errors.ts";
import { hasGraph, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { renderOptions, toTemplateMessages } from "./chat/template_message.ts";
import { type ChatPrompt, readGenerationDefaults } from "./chat_generation.ts";
import { ChatModel } from "./chat_model.ts";
import { loadDecoder } from "../folder/decoder_load.ts";
import { isLongText } from "./long_text_encoder.ts";
import type { Model, OpenContext } from "../model.ts";
import { requireTokenIds } from "./answer_tokens.ts";
import type { ChatMessage, ChatTask, Conversation, RawPrompt } from "../task.ts";
import { loadTokenizer, type TextTokenizer } from "./tokenizer.ts";

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

/** A prompt; or, if it is long, a function that encodes it while yielding to other work. */
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

/** Renders the prompt as text. For base models without a template, the texts of the messages are concatenated. */
function renderChat(task: Conversation, { template }: TextTokenizer): string {
  const texts = task.messages.map(requireText);
  const options = renderOptions(task, template);
  if (template === undefined) return texts.join("\n");
  const messages = toTemplateMessages(task.messages, (_, index) => texts[index]!);
  return template.render(messages, options);
}

/** @throws {HearthError} `unsupported_by_model` when the message is not text only. */
function requireText({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  const [part] = content.filter(({ type }) => type !== "text");
  throw new HearthError(
    "unsupported_by_model",
    `A text model takes no part of type ${part?.type}.`,
  );
}

/**
 * A vision folder whose download is incomplete looks like a text model, which would refuse images without giving the
 * reason.
 */
function warnAboutMissingEncoder(folder: ModelFolder): void {
  if (!("vision_config" in folder.config) || hasGraph(folder, "vision_encoder")) return;
  log.warn(
    "a vision model is served for text only: its folder has no onnx/vision_encoder*.onnx",
    { folder: folder.path },
  );
}

/**
 * Spellings of the tokens for prefix, suffix and middle, as used by: Qwen and DeepSeek, StarCoder and Granite,
 * CodeLlama, CodeGemma.
 */
const FILL_IN_MIDDLE = [
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
  ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
  ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
  ["▁<PRE>", "▁<SUF>", "▁<MID>"],
] as const;

/**
 * Encodes a prompt without a chat template: a text or tokens, which the model continues.
 *
 * @throws {HearthError} `unsupported_by_model` for a suffix, if the tokenizer has no fill-in-the-middle tokens;
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
    // A prompt that is too long is not decoded, which would take long: the engine refuses it.
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
