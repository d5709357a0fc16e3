/**
 * The differences between families of image-to-text models: prompts and decoding.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { Transformers } from "../../onnx/runtime/hook.ts";
import type { Json } from "../../hub/model_folder.ts";
import type { Size } from "../image_processor.ts";
import type { TextTokenizer } from "../tokenizer.ts";

/** The prompt for a request's text. */
export interface OcrPrompt {
  /** Token ids that the encoder reads after the image. */
  readonly text: readonly number[];
  /** The decoder's prompt. */
  readonly prompt: readonly number[];
  /** A further end token. */
  readonly endToken?: number | undefined;
  /** Converts the model's complete text to the answer; identity if absent. */
  readonly finish?: ((text: string, image: Size) => string) | undefined;
}

export interface OcrFamily {
  /** The text of token ids, as clients see it. */
  textOf(ids: number[]): string;
  /** @throws {HearthError} `invalid_value` when the model does not support the text. */
  readPrompt(text: string): OcrPrompt;
}

/** The input of a family's constructor. */
export interface FamilyOptions {
  /** The folder's configuration, merged as in `generate()`. */
  readonly config: Json;
  readonly tokenizer: TextTokenizer;
  /** The folder's `preprocessor_config.json`. */
  readonly preprocessor: Json;
  readonly transformers: Transformers;
}

/** The decoder start token. @throws {StartupError} when the configuration has none. */
export function startTokenOf(config: Json): number {
  const token = config["decoder_start_token_id"] ?? config["bos_token_id"];
  if (typeof token === "number") return token;
  throw new StartupError(
    "The folder's configuration gives no decoder_start_token_id, which the decoder begins with.",
  );
}

/** Text with all tags, but without start, end and padding tokens. */
export function decodeWithTags({ config, tokenizer }: FamilyOptions): OcrFamily["textOf"] {
  const names = ["bos_token_id", "eos_token_id", "pad_token_id"];
  const hidden = new Set(names.flatMap((name) => config[name] ?? []));
  return (ids) => {
    const shown = ids.filter((id) => !hidden.has(id));
    return shown.length === 0 ? "" : tokenizer.decodeAll(shown);
  };
}
