/**
 * The loaders of the families' models. Each is imported on demand, yet importing this module makes Deno fetch all their
 * packages: it is for the thread that owns the device.
 *
 * @module
 */
import type { LoadRecogniser } from "./asr/recogniser.ts";
import type { DescribeFamily } from "./asr/generating_families.ts";
import type { OpenContext } from "./family.ts";
import type { Model } from "./model.ts";
import type { ReadLineOcrConfig } from "./ocr/line_ocr.ts";
import type { FamilyOptions, OcrFamily } from "./ocr/ocr_family.ts";
import type { LoadSynthesizer } from "./tts/synthesizer.ts";

/** Families of speech recognition models. */
export const ASR_LOADERS = {
  whisper: async () => (await import("./asr/whisper_load.ts")).loadWhisper,
  ctc: async () => (await import("./asr/ctc_load.ts")).loadCtc,
  tdt: async () => (await import("./asr/tdt_load.ts")).loadTdt,
  moonshine: () => generating(({ describeMoonshine }) => describeMoonshine),
  cohere: () => generating(({ describeCohere }) => describeCohere),
  granite: () => generating(({ describeGranite }) => describeGranite),
  voxtral: () => generating(({ describeVoxtral }) => describeVoxtral),
} satisfies Record<string, () => Promise<LoadRecogniser>>;

/** Families of speech synthesis models, by their `model_type`. */
export const SYNTHESIZERS = {
  chatterbox: async () => (await import("./tts/tts_chatterbox.ts")).loadChatterbox,
  style_text_to_speech_2: async () => (await import("./tts/tts_kokoro.ts")).loadKokoro,
  supertonic: async () => (await import("./tts/tts_supertonic.ts")).loadSupertonic,
  vits: async () => (await import("./tts/tts_vits.ts")).loadVits,
  speecht5: async () => (await import("./tts/tts_speecht5.ts")).loadSpeechT5,
} satisfies Record<string, () => Promise<LoadSynthesizer>>;

/** Families that read images with an encoder and a decoder. */
export const OCR_LOADERS = {
  visionEncoderDecoder: async () =>
    (await import("./ocr/vision_encoder_decoder.ts")).openVisionEncoderDecoder,
  florence: async () => (await import("./ocr/florence.ts")).openFlorence,
} satisfies Record<string, () => Promise<(options: FamilyOptions) => OcrFamily>>;

/** Line OCR models: described by `config.json`, or as PP-OCR is published. */
export const LINE_OCR_CONFIGS = {
  described: async () => (await import("./ocr/line_ocr_config.ts")).readLineOcrConfig,
  paddle: async () => (await import("./ocr/paddle_config.ts")).readPaddleConfig,
} satisfies Record<string, () => Promise<ReadLineOcrConfig>>;

/** Speech recognition models run by transformers.js: they generate text without times. */
async function generating(
  choose: (families: typeof import("./asr/generating_families.ts")) => DescribeFamily,
): Promise<LoadRecogniser> {
  const { loadGenerating } = await import("./asr/generating_load.ts");
  const describe = choose(await import("./asr/generating_families.ts"));
  return async (context, options) =>
    await loadGenerating(context, { ...options, family: await describe(context.folder) });
}

/** Opens a speech recognition model. */
export async function openAsr(
  family: keyof typeof ASR_LOADERS,
  context: OpenContext,
): Promise<Model> {
  const { AsrModel } = await import("./asr/asr.ts");
  return await AsrModel.load(context, await ASR_LOADERS[family]());
}

/** Opens a speech synthesis model. */
export async function openTts(
  family: keyof typeof SYNTHESIZERS,
  context: OpenContext,
): Promise<Model> {
  const { TtsModel } = await import("./tts/tts.ts");
  return await TtsModel.load(context, await SYNTHESIZERS[family]());
}

/** Opens an encoder-decoder OCR model. */
export async function openOcr(
  family: keyof typeof OCR_LOADERS,
  context: OpenContext,
): Promise<Model> {
  const { loadOcr } = await import("./ocr/ocr_load.ts");
  return await loadOcr(context, await OCR_LOADERS[family]());
}

/** Opens a line OCR model. */
export async function openLineOcr(
  form: keyof typeof LINE_OCR_CONFIGS,
  context: OpenContext,
): Promise<Model> {
  const { LineOcrModel } = await import("./ocr/line_ocr.ts");
  return await LineOcrModel.load(context, await LINE_OCR_CONFIGS[form]());
}

/** Opens a text generation model. */
export async function openText(context: OpenContext): Promise<Model> {
  return await (await import("./text.ts")).TextGenerationModel.load(context);
}

/** Opens a vision-language model. */
export async function openVision(kind: "vision" | "ocr", context: OpenContext): Promise<Model> {
  return await (await import("./vision/vision.ts")).loadVision({ ...context, kind });
}

/** Opens an embedding model. */
export async function openEmbedding(context: OpenContext): Promise<Model> {
  return await (await import("./embedding/embedding.ts")).EmbeddingModel.load(context);
}

/** Opens a reranker. */
export async function openRerank(context: OpenContext): Promise<Model> {
  return await (await import("./embedding/rerank.ts")).RerankModel.load(context);
}

/** Opens a background removal model. */
export async function openMatting(context: OpenContext): Promise<Model> {
  return await (await import("./matting/matting_load.ts")).loadMatting(context);
}
