/**
 * Vision-language models: conversations with images in, text out.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import type { ModelKind } from "../../base/config.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { HearthError, startupStep } from "../../base/errors.ts";
import { Registry } from "../../base/prometheus.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { encodePng } from "../../media/png.ts";
import { renderOptions } from "../text/chat/template_message.ts";
import { type ChatPrompt, readGenerationDefaults } from "../text/chat_generation.ts";
import { ChatModel, type ChatModelParts } from "../text/chat_model.ts";
import { type DecoderLoadOptions, loadDecoder } from "../folder/decoder_load.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { findMediaToken, MediaEncoder } from "../media_encoder.ts";
import { openGraph } from "../folder/graph_file.ts";
import type { Model } from "../model.ts";
import type { ChatMessage, ChatTask, Conversation } from "../task.ts";
import { loadTokenizer } from "../text/tokenizer.ts";
import { VisionImages } from "./vision_images.ts";
import { VisionPrompt } from "./vision_prompt.ts";

/** The parts of a vision model, which owns all of them. */
interface VisionModelParts extends ChatModelParts {
  readonly kind: "vision" | "ocr";
  readonly images: VisionImages;
  readonly prompt: VisionPrompt;
}

export class VisionModel extends ChatModel implements Model {
  readonly kind: "vision" | "ocr";
  override readonly metrics: prometheus.Registry;
  readonly #parts: VisionModelParts;

  constructor(parts: VisionModelParts) {
    super(parts);
    this.#parts = parts;
    this.kind = parts.kind;
    this.metrics = Registry.merge([this.engine.metrics.registry, parts.images.metrics.registry]);
  }

  override render(chat: Conversation): string {
    requireNoImages(chat.messages);
    const options = renderOptions(chat, this.tokenizer.template);
    return this.#parts.prompt.build(chat.messages, { ...options, images: [] }).text;
  }

  override async dispose(): Promise<void> {
    await super.dispose();
    await this.#parts.images.dispose();
  }

  /** Reads the task's images, then renders the prompt. */
  protected override toPrompt(task: ChatTask): (signal: AbortSignal) => Promise<ChatPrompt> {
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

/** @throws {HearthError} `unsupported_by_model` for an image: its number of tokens is only known after it is read. */
function requireNoImages(messages: readonly ChatMessage[]): void {
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    const image = content.find((part) => part.type !== "text");
    if (image === undefined) continue;
    const seen = image.type === "image" ? "an image" : "a document";
    throw new HearthError(
      "unsupported_by_model",
      `${image.param}: want text, saw ${seen}; /messages/count_tokens counts images too.`,
      { param: image.param },
    );
  }
}

const ENCODER_GRAPH = "vision_encoder";
const PROBE_PIXELS = 64;

interface VisionLoadOptions extends DecoderLoadOptions {
  readonly kind: Extract<ModelKind, "vision" | "ocr">;
  /** Device memory for cached image rows; 256 MiB if absent. Those of the last image are always kept. */
  readonly maxEncodedBytes?: number | undefined;
}

/**
 * Opens an image encoder, embeddings and a decoder.
 *
 * @throws {StartupError} when a file is missing from the folder, or its parts do not fit together.
 */
export async function loadVision(options: VisionLoadOptions): Promise<VisionModel> {
  const { folder, backend, kind, engine, onProgress } = options;
  onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  using opened = new DisposableStack();
  const imagePreprocessor = await ImagePreprocessor.open({
    processor: { load: "loadProcessor", folder: folder.path },
    maxPixels: engine.maxImagePixels,
  });
  opened.defer(() => imagePreprocessor.close());
  const prompt = new VisionPrompt({
    tokenizer,
    placeholder: imagePreprocessor.placeholder,
    imageTokenId: findMediaToken(folder.config, "image"),
  });
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const defaults = readGenerationDefaults(folder.config, generationConfig);
  const { decoder, dtype, embeddings } = await loadDecoder(options);
  const session = await openGraph(ENCODER_GRAPH, options);
  const encoder = await MediaEncoder.open({ backend, session, embeddings, medium: "image" });
  onProgress({ what: "warming up" });
  await warmUp(decoder);
  await warmUpEncoder({ imagePreprocessor, encoder, prompt }, folder);
  const images = new VisionImages({
    imagePreprocessor,
    encoder,
    mergeSize: readMergeSize(folder.config),
    numRows: (image) => prompt.numRows(image),
    maxEncodedBytes: options.maxEncodedBytes,
  });
  const { prefixCache } = engine;
  opened.move();
  return new VisionModel({
    ...{ kind, decoder, images, prompt, tokenizer, defaults, dtype, prefixCache },
  });
}

/** Encodes an image, so that a folder whose parts do not fit together fails now rather than at the first request. */
async function warmUpEncoder(
  { imagePreprocessor, encoder, prompt }: {
    readonly imagePreprocessor: ImagePreprocessor;
    readonly encoder: MediaEncoder;
    readonly prompt: VisionPrompt;
  },
  { path }: ModelFolder,
): Promise<void> {
  const data = Uint8Array.from(
    { length: PROBE_PIXELS * PROBE_PIXELS * 3 },
    (_, i) => (i * 7 + (i >> 8) * 31) % 256,
  );
  const size = { width: PROBE_PIXELS, height: PROBE_PIXELS };
  const bytes = encodePng({ ...size, channels: 3, data });
  const { signal } = new AbortController();
  await startupStep(async () => {
    // Tiles would take many times as long, and check nothing more.
    const image = await imagePreprocessor.call("prepare", { bytes, inOnePiece: true }, { signal });
    (await encoder.encode(image.tensors, prompt.numRows(image))).dispose();
  }, (reason) => `${path} cannot take images: ${reason}`);
}

/** Qwen2-VL and related models merge a square of patches with this side into one token. */
function readMergeSize(config: Json): number {
  const vision = (config["vision_config"] ?? {}) as Json;
  return Number(vision["spatial_merge_size"] ?? 2);
}
