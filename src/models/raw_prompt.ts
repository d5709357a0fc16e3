/**
 * Prompts without a chat template: text or tokens that the model continues verbatim.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import type { ChatPrompt } from "./chat_generation.ts";
import type { RawPrompt } from "./task.ts";
import type { TextTokenizer } from "./tokenizer.ts";

/** Spellings of the tokens for prefix, suffix and middle: Qwen and DeepSeek-like, StarCoder and Granite, CodeLlama, CodeGemma. */
const FILL_IN_MIDDLE = [
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
  ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
  ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
  ["▁<PRE>", "▁<SUF>", "▁<MID>"],
] as const;

/**
 * @throws {HearthError} `unsupported_by_model` for a suffix, if the tokenizer has no fill-in-the-middle tokens;
 * `invalid_value` for unknown tokens.
 */
export function encodeRaw(
  { prompt, suffix }: RawPrompt,
  { tokenizer, vocabSize }: { readonly tokenizer: TextTokenizer; readonly vocabSize: number },
): ChatPrompt {
  if (typeof prompt !== "string") {
    const bad = prompt.findIndex((id) => id >= vocabSize);
    if (bad >= 0) {
      throw new HearthError(
        "invalid_value",
        `prompt: want token ids from 0 to ${vocabSize - 1}, saw ${prompt[bad]}.`,
        { param: "prompt" },
      );
    }
    return { text: tokenizer.decodeAll([...prompt]), promptTokens: Int32Array.from(prompt) };
  }
  if (suffix === undefined) {
    return { text: prompt, promptTokens: Int32Array.from(tokenizer.encodeWhole(prompt)) };
  }
  const [before, between, after] = FILL_IN_MIDDLE
    .map((spellings) => spellings.map((spelling) => tokenizer.idOf(spelling)))
    .find((ids) => ids.every((id) => id !== undefined)) ?? [];
  if (before === undefined || between === undefined || after === undefined) {
    throw new HearthError(
      "unsupported_by_model",
      "suffix: the loaded model has no tokens for filling in the middle of a text.",
      { param: "suffix" },
    );
  }
  const ids = [
    before,
    ...tokenizer.encode(prompt),
    between,
    ...tokenizer.encode(suffix),
    after,
  ];
  return { text: prompt, promptTokens: Int32Array.from(ids) };
}
