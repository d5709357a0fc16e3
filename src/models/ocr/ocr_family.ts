/**
 * What sets the families of image-reading models apart: how a request's text becomes a prompt, and tokens text.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { Transformers } from "../../onnx/hook.ts";
import type { Json } from "../../hub/model_folder.ts";
import type { Size } from "../image_processor.ts";
import type { TextTokenizer } from "../tokenizer.ts";

/** A request's text in the model's terms. */
export interface OcrPrompt {
  /** Token ids that the encoder reads behind the image. */
  readonly text: readonly number[];
  /** Token ids that the decoder begins with. */
  readonly prompt: readonly number[];
  /** A token that ends the answer besides the model's own. */
  readonly endToken?: number | undefined;
  /** Makes the answer of the model's text, once it is whole; it is the answer if absent. */
  readonly finish?: ((text: string, image: Size) => string) | undefined;
}

export interface OcrFamily {
  /** The text of token ids, as clients see it. */
  textOf(ids: number[]): string;
  /** @throws {HearthError} `invalid_value` when the text is nothing that the model can do. */
  readPrompt(text: string): OcrPrompt;
}

/** What a family is told by. */
export interface FamilyOptions {
  /** The folder's configuration, merged as `generate()` does it. */
  readonly config: Json;
  readonly tokenizer: TextTokenizer;
  /** The folder's `preprocessor_config.json`. */
  readonly preprocessor: Json;
  readonly transformers: Transformers;
}

/** The token that the decoder begins with. @throws {StartupError} when the configuration has none. */
export function startTokenOf(config: Json): number {
  const token = config["decoder_start_token_id"] ?? config["bos_token_id"];
  if (typeof token === "number") return token;
  throw new StartupError(
    "The folder's configuration gives no decoder_start_token_id, which the decoder begins with.",
  );
}

/** Text with all tags, but without the tokens that begin, end and fill. */
export function decodeWithTags({ config, tokenizer }: FamilyOptions): OcrFamily["textOf"] {
  const names = ["bos_token_id", "eos_token_id", "pad_token_id"];
  const hidden = new Set(names.flatMap((name) => config[name] ?? []));
  return (ids) => {
    const shown = ids.filter((id) => !hidden.has(id));
    return shown.length === 0 ? "" : tokenizer.decodeAll(shown);
  };
}
