/**
 * The loaders of the families' models. Each is imported on demand, yet importing this module makes Deno fetch all their
 * packages: it is for the thread that owns the device.
 *
 * @module
 */
import type { LoadRecogniser } from "./asr/recogniser.ts";
import type { OpenContext } from "./open_context.ts";
import type { Model } from "./model.ts";
import type { ReadLineOcrConfig } from "./ocr/line_ocr.ts";
import type { FamilyOptions, OcrFamily } from "./ocr/ocr_families.ts";
import type { LoadSynthesizer } from "./tts/synthesizer.ts";

/** Families of speech synthesis models, by their `model_type`. */
export const SYNTHESIZERS = {
  chatterbox: async () => (await import("./tts/tts_chatterbox.ts")).loadChatterbox,
  style_text_to_speech_2: async () => (await import("./tts/tts_kokoro.ts")).loadKokoro,
  supertonic: async () => (await import("./tts/tts_supertonic.ts")).loadSupertonic,
  vits: async () => (await import("./tts/tts_vits.ts")).loadVits,
  speecht5: async () => (await import("./tts/tts_speecht5.ts")).loadSpeechT5,
} satisfies Record<string, () => Promise<LoadSynthesizer>>;

/** What opens a model, by the name that families have for it. */
export const LOADERS = {
  text: async (context) => await (await import("./text.ts")).TextGenerationModel.load(context),
  vision: (context) => openVision("vision", context),
  visionOcr: (context) => openVision("ocr", context),
  embedding: async (context) =>
    await (await import("./embedding/embedding.ts")).EmbeddingModel.load(context),
  rerank: async (context) =>
    await (await import("./embedding/rerank.ts")).RerankModel.load(context),
  matting: async (context) =>
    await (await import("./matting/matting_load.ts")).loadMatting(context),
  visionEncoderDecoder: async (context) =>
    await openOcr(
      context,
      (await import("./ocr/ocr_families.ts")).openVisionEncoderDecoder,
    ),
  florence: async (context) =>
    await openOcr(context, (await import("./ocr/ocr_families.ts")).openFlorence),
  lineOcr: async (context) =>
    await openLineOcr(context, (await import("./ocr/line_ocr_config.ts")).readLineOcrConfig),
  paddleOcr: async (context) =>
    await openLineOcr(context, (await import("./ocr/paddle_config.ts")).readPaddleConfig),
  whisper: async (context) =>
    await openAsr(context, (await import("./asr/whisper_load.ts")).loadWhisper),
  ctc: async (context) => await openAsr(context, (await import("./asr/ctc_load.ts")).loadCtc),
  tdt: async (context) => await openAsr(context, (await import("./asr/tdt_load.ts")).loadTdt),
  moonshine: async (context) => await openAsr(context, await generating("describeMoonshine")),
  cohere: async (context) => await openAsr(context, await generating("describeCohere")),
  granite: async (context) => await openAsr(context, await generating("describeGranite")),
  voxtral: async (context) => await openAsr(context, await generating("describeVoxtral")),
  chatterbox: (context) => openTts("chatterbox", context),
  style_text_to_speech_2: (context) => openTts("style_text_to_speech_2", context),
  supertonic: (context) => openTts("supertonic", context),
  vits: (context) => openTts("vits", context),
  speecht5: (context) => openTts("speecht5", context),
} satisfies Record<string, (context: OpenContext) => Promise<Model>>;

/** Speech recognition models that generate text without times. */
async function generating(
  name: keyof typeof import("./asr/generating_families.ts"),
): Promise<LoadRecogniser> {
  const { loadGenerating } = await import("./asr/generating_recogniser.ts");
  const { [name]: describe } = await import("./asr/generating_families.ts");
  return (context, options) => loadGenerating(context, { ...options, describe });
}

async function openAsr(context: OpenContext, load: LoadRecogniser): Promise<Model> {
  return await (await import("./asr/asr.ts")).AsrModel.load(context, load);
}

async function openTts(type: keyof typeof SYNTHESIZERS, context: OpenContext): Promise<Model> {
  return await (await import("./tts/tts.ts")).TtsModel.load(context, await SYNTHESIZERS[type]());
}

async function openOcr(
  context: OpenContext,
  open: (options: FamilyOptions) => OcrFamily,
): Promise<Model> {
  return await (await import("./ocr/ocr_load.ts")).loadOcr(context, open);
}

async function openLineOcr(context: OpenContext, read: ReadLineOcrConfig): Promise<Model> {
  return await (await import("./ocr/line_ocr.ts")).LineOcrModel.load(context, read);
}

async function openVision(kind: "vision" | "ocr", context: OpenContext): Promise<Model> {
  return await (await import("./vision/vision.ts")).loadVision({ ...context, kind });
}
