/**
 * The loaders of all model families. Each loader is imported on demand, but importing this module makes Deno fetch the
 * packages of all loaders. So only the thread that owns the device imports it.
 *
 * @module
 */
import type { LoadRecogniser } from "../asr/recogniser.ts";
import type { Model, OpenContext } from "../model.ts";
import type { ReadLineOcrConfig } from "../ocr/line_ocr.ts";
import type { LoadSynthesizer } from "../tts/synthesizer.ts";

type Load = (context: OpenContext) => Promise<Model>;

const makeAsrLoader = (load: () => Promise<LoadRecogniser>): Load => async (context) =>
  await (await import("../asr/asr.ts")).AsrModel.load(context, await load());

/** Makes the loader of a speech recogniser that generates text without timestamps. */
const makeGeneratingLoader = (name: keyof typeof import("../asr/generating_families.ts")): Load =>
  makeAsrLoader(async () => {
    const { loadGenerating } = await import("../asr/generating_recogniser.ts");
    const { [name]: describe } = await import("../asr/generating_families.ts");
    return (context, options) => loadGenerating(context, { ...options, describe });
  });

const makeTtsLoader = (load: () => Promise<LoadSynthesizer>): Load => async (context) =>
  await (await import("../tts/tts.ts")).TtsModel.load(context, await load());

const makeOcrLoader = (family: "visionEncoderDecoder" | "florence"): Load => async (context) =>
  await (await import("../ocr/ocr_load.ts")).loadOcr(context, family);

const makeLineOcrLoader = (load: () => Promise<ReadLineOcrConfig>): Load => async (context) =>
  await (await import("../ocr/line_ocr.ts")).LineOcrModel.load(context, await load());

const makeVisionLoader = (kind: "vision" | "ocr"): Load => async (context) =>
  await (await import("../vision/vision.ts")).loadVision({ ...context, kind });

/** The functions that open models, by the names under which families refer to them. */
export const LOADERS = {
  text: async (context) =>
    await (await import("../text/text.ts")).TextGenerationModel.load(context),
  vision: makeVisionLoader("vision"),
  visionOcr: makeVisionLoader("ocr"),
  embedding: async (context) =>
    await (await import("../embedding/embedding.ts")).EmbeddingModel.load(context),
  rerank: async (context) =>
    await (await import("../embedding/rerank.ts")).RerankModel.load(context),
  matting: async (context) => await (await import("../matting/matting.ts")).loadMatting(context),
  visionEncoderDecoder: makeOcrLoader("visionEncoderDecoder"),
  florence: makeOcrLoader("florence"),
  lineOcr: makeLineOcrLoader(async () => (await import("../ocr/line_ocr.ts")).readLineOcrConfig),
  paddleOcr: makeLineOcrLoader(async () =>
    (await import("../ocr/paddle_config.ts")).readPaddleConfig
  ),
  whisper: makeAsrLoader(async () => (await import("../asr/whisper_load.ts")).loadWhisper),
  ctc: makeAsrLoader(async () => (await import("../asr/ctc_load.ts")).loadCtc),
  tdt: makeAsrLoader(async () => (await import("../asr/tdt_load.ts")).loadTdt),
  moonshine: makeGeneratingLoader("describeMoonshine"),
  cohere: makeGeneratingLoader("describeCohere"),
  granite: makeGeneratingLoader("describeGranite"),
  voxtral: makeGeneratingLoader("describeVoxtral"),
  chatterbox: makeTtsLoader(async () => (await import("../tts/chatterbox.ts")).loadChatterbox),
  style_text_to_speech_2: makeTtsLoader(async () =>
    (await import("../tts/non_autoregressive.ts")).loadKokoro
  ),
  supertonic: makeTtsLoader(async () =>
    (await import("../tts/non_autoregressive.ts")).loadSupertonic
  ),
  vits: makeTtsLoader(async () => (await import("../tts/non_autoregressive.ts")).loadVits),
  speecht5: makeTtsLoader(async () => (await import("../tts/speecht5.ts")).loadSpeechT5),
} satisfies Record<string, Load>;
