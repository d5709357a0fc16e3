/**
 * Vision-language models: conversations with images, and with sounds if the model supports them, in; text out.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import type { ModelKind } from "../../base/config.ts";
import { warmUp } from "../../engine/generate.ts";
import { HearthError, runStartupStep } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { ValueInfo } from "../../device/ort/ort.ts";
import { Registry } from "../../base/metric_set.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { encodePng } from "../../media/image/png.ts";
import { makeRenderOptions } from "../text/chat/template_message.ts";
import { type ChatPrompt, readGenerationDefaults } from "../text/chat_generation.ts";
import { ChatModel, type ChatModelParts } from "../text/text.ts";
import { type DecoderLoadOptions, loadDecoder } from "../folder/decoder_load.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { EncodedMedia, findMediaToken, MEDIA_NAMES, MediaEncoder } from "../media_encoder.ts";
import { openGraph } from "../folder/graph_file.ts";
import type { Model } from "../model.ts";
import type { ChatMessage, ChatTask, Conversation } from "../task.ts";
import { loadTokenizer, type TextTokenizer } from "../text/tokenizer.ts";
import { SoundProcessor } from "./sound_processor.ts";
import { type MediumTokens, VisionPrompt } from "./vision_prompt.ts";

/** The parts of a vision model, which owns them. */
interface VisionModelParts extends ChatModelParts {
  readonly kind: "vision" | "ocr";
  readonly imagePreprocessor: ImagePreprocessor;
  readonly images: EncodedMedia;
  /** Absent if the model does not take sounds. */
  readonly sounds: EncodedMedia | undefined;
  readonly prompt: VisionPrompt;
}

export class VisionModel extends ChatModel implements Model {
  readonly kind: "vision" | "ocr";
  readonly takesAudio: boolean;
  override readonly metrics: prometheus.Registry;
  readonly #parts: VisionModelParts;

  constructor(parts: VisionModelParts) {
    super(parts);
    this.#parts = parts;
    this.kind = parts.kind;
    this.takesAudio = parts.sounds !== undefined;
    const media = parts.sounds === undefined ? [parts.images] : [parts.images, parts.sounds];
    this.metrics = Registry.merge([
      this.engine.metrics.registry,
      ...media.map(({ metrics }) => metrics.registry),
    ]);
  }

  override render(chat: Conversation): string {
    requireNoMedia(chat.messages);
    const options = makeRenderOptions(chat, this.tokenizer.template);
    return this.#parts.prompt.build(chat.messages, { ...options, media: [] }).text;
  }

  override async dispose(): Promise<void> {
    await super.dispose();
    this.#parts.imagePreprocessor.close();
    await this.#parts.images.dispose();
    await this.#parts.sounds?.dispose();
  }

  /** Reads the task's images and sounds, then renders the prompt. */
  protected override toPrompt(task: ChatTask): (signal: AbortSignal) => Promise<ChatPrompt> {
    const { images, sounds, prompt, tokenizer } = this.#parts;
    const parts = task.messages.flatMap(({ content }) =>
      typeof content === "string"
        ? []
        : content.filter((part) => part.type === "image" || part.type === "audio")
    );
    const options = makeRenderOptions(task, tokenizer.template);
    return async (signal) => {
      const media = await Promise.all(
        parts.map((part) => (part.type === "image" ? images : sounds!).open(part, signal)),
      );
      signal.throwIfAborted();
      return prompt.build(task.messages, { ...options, media });
    };
  }
}

/** @throws {HearthError} `unsupported_by_model` for media, whose number of tokens is known only after they are read. */
function requireNoMedia(messages: readonly ChatMessage[]): void {
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    const part = content.find((part) => part.type !== "text");
    if (part === undefined) continue;
    const seen = part.type === "document" ? "a document" : MEDIA_NAMES[part.type].one;
    throw new HearthError(
      "unsupported_by_model",
      `${part.param}: want text, saw ${seen}. Use /messages/count_tokens to count the tokens of images.`,
      { param: part.param },
    );
  }
}

const ENCODER_GRAPH = "vision_encoder";
const AUDIO_ENCODER_GRAPH = "audio_encoder";
const PROBE_PIXELS = 64;

interface VisionLoadOptions extends DecoderLoadOptions {
  readonly kind: Extract<ModelKind, "vision" | "ocr">;
  /** Device memory for cached rows of images; 256 MiB if absent. The rows of the last image are always kept. */
  readonly maxEncodedBytes?: number | undefined;
}

/**
 * Loads a vision-language model.
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
  const seen = {
    placeholder: imagePreprocessor.placeholder,
    tokenId: findMediaToken(folder.config, "image"),
  };
  const imagePrompt = new VisionPrompt({ tokenizer, media: { image: seen } });
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const defaults = readGenerationDefaults(folder.config, generationConfig);
  const { decoder, dtype, embeddings } = await loadDecoder(options);
  const session = await openGraph(ENCODER_GRAPH, options);
  const encoder = await MediaEncoder.open({ backend, session, embeddings, medium: "image" });
  onProgress({ what: "warming up" });
  await warmUp(decoder);
  await warmUpEncoder({ imagePreprocessor, encoder, prompt: imagePrompt }, folder);
  const hearing = await openHearing(options, { tokenizer, embeddings, seen });
  const prompt = hearing?.prompt ?? imagePrompt;
  const images = new EncodedMedia({
    medium: "image",
    prepare: (bytes, signal) => imagePreprocessor.call("prepare", { bytes }, { signal }),
    encoder,
    mergeSize: readMergeSize(folder.config),
    countRows: (text) => prompt.countRows("image", text),
    maxEncodedBytes: options.maxEncodedBytes,
  });
  const sounds = hearing && new EncodedMedia({
    medium: "audio",
    prepare: (bytes, signal) => hearing.processor.prepare(bytes, signal),
    encoder: hearing.encoder,
    countRows: (text) => prompt.countRows("audio", text),
    maxEncodedBytes: options.maxEncodedBytes,
  });
  const { prefixCache } = engine;
  opened.move();
  return new VisionModel({
    ...{ kind, decoder, imagePreprocessor, images, sounds, prompt, tokenizer, defaults, dtype },
    prefixCache,
  });
}

/** The parts for sounds of a model that takes them. */
interface Hearing {
  readonly processor: SoundProcessor;
  readonly encoder: MediaEncoder;
  /** Builds prompts with images and sounds. */
  readonly prompt: VisionPrompt;
}

/**
 * Opens the audio encoder and encodes a second of silence. If the parts for sounds do not fit together, the model
 * serves only texts and images, and the log gives the reason.
 */
async function openHearing(
  options: VisionLoadOptions,
  { tokenizer, embeddings, seen }: {
    readonly tokenizer: TextTokenizer;
    readonly embeddings: ValueInfo | undefined;
    readonly seen: MediumTokens;
  },
): Promise<Hearing | undefined> {
  const { folder, backend, graphs, engine } = options;
  if (!graphs.all.some(({ name }) => name === AUDIO_ENCODER_GRAPH)) return undefined;
  let encoder: MediaEncoder | undefined;
  try {
    const processor = await SoundProcessor.open(folder, engine);
    const { placeholder } = processor;
    const heard = { placeholder, tokenId: findMediaToken(folder.config, "audio") };
    const prompt = new VisionPrompt({ tokenizer, media: { image: seen, audio: heard } });
    const session = await openGraph(AUDIO_ENCODER_GRAPH, options);
    encoder = await MediaEncoder.open({ backend, session, embeddings, medium: "audio" });
    const { tensors, text } = await processor.prepareSilence();
    (await encoder.encode(tensors, prompt.countRows("audio", text))).dispose();
    return { processor, encoder, prompt };
  } catch (error) {
    await encoder?.dispose();
    const reason = (error as Error).message;
    log.warn("the model's audio encoder cannot be used: sounds are not supported", {
      folder: folder.path,
      reason,
    });
    return undefined;
  }
}

/** Encodes an image, so that parts that do not fit together cause an error now rather than at the first request. */
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
  await runStartupStep(async () => {
    // Dividing the image into tiles would take many times as long and check nothing else.
    const image = await imagePreprocessor.call("prepare", { bytes, keepsWhole: true }, { signal });
    (await encoder.encode(image.tensors, prompt.countRows("image", image.text))).dispose();
  }, (reason) => `${path} cannot take images: ${reason}`);
}

/** Reads the side of the square of patches that Qwen2-VL and related models merge into one token. */
function readMergeSize(config: Json): number {
  const vision = (config["vision_config"] ?? {}) as Json;
  return Number(vision["spatial_merge_size"] ?? 2);
}
