/**
 * From a folder of Whisper's architecture to a recogniser.
 *
 * @module
 */
import { readLogMelSpec } from "../../../kernels/log_mel_spec.ts";
import type { OpenContext } from "../open_context.ts";
import { type ModelFolder, numberAt, readOptionalJson } from "../../hub/model_folder.ts";
import {
  languagesOf,
  plainTokensOf,
  readAlignmentHeads,
  readWhisperConfig,
  type WhisperConfig,
} from "./whisper_config.ts";
import type { Recogniser, RecogniserOptions } from "./recogniser.ts";
import { WindowDecoder, type WindowInput } from "./window_decoder.ts";
import type { SpeechKernels } from "../../backend/speech.ts";
import { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { loadEncoderDecoder } from "../encoder_decoder_load.ts";
import {
  type FeatureEncoder,
  type FeatureEncoderOptions,
  openFeatureEncoder,
} from "./feature_encoder.ts";
import { readGraph } from "../graph_file.ts";
import { requireKnownInputs } from "../graph_ports.ts";
import { readTokenizer } from "../tokenizer_files.ts";
import { transcribe } from "./whisper_transcriber.ts";

const ENCODER = "encoder_model";
const FEATURES = "input_features";
/** Most memory that the encoder's attention weights may take, all heads of all windows of one layer. */
const MAX_ATTENTION_BYTES = 2 ** 28;

/** @throws {StartupError} when the folder is not a Whisper model, or a part is missing. */
export async function loadWhisper(
  context: OpenContext,
  { maxRecordings, metrics }: RecogniserOptions,
): Promise<Recogniser> {
  const { folder, graphs, backend, onProgress } = context;
  const { config: folderConfig } = folder;
  onProgress({ what: "reading the tokenizer" });
  const { tokenizer } = await readTokenizer(folder);
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const config = readWhisperConfig(
    { config: folderConfig, generationConfig },
    (token) => tokenizer.token_to_id(token) ?? undefined,
  );
  const spec = readLogMelSpec(await readOptionalJson(folder, "preprocessor_config.json"));
  const encoder = await openEncoder(context, {
    maxInputs: maxRecordings,
    maxWholeInputs: maxWindows(folder, spec.frames),
  });
  // Known when the decoder is open.
  const later: { speech?: SpeechKernels } = {};
  const decoder = await loadEncoderDecoder<WindowInput>({
    ...context,
    vocabSize: config.vocabSize,
    contextLength: numberAt(folderConfig, "max_target_positions") ?? 448,
    numPositions: numberAt(folderConfig, "max_source_positions") ?? 1500,
    maxSequences: maxRecordings,
    encoder: {
      maxInputs: encoder.maxInputs,
      encode: async (windows) => {
        const observe = metrics.encoderSeconds.startTimer();
        const hidden = await encoder.encode(later.speech!.features(windows.map(({ row }) => row)));
        observe();
        metrics.windows.inc(windows.length);
        return hidden;
      },
    },
    processLogits: (logits, rows) => {
      const rules = rows.map(({ rule }) => rule);
      if (rules.some((rule) => rule !== undefined)) later.speech!.restrict(logits, rules);
    },
  });
  const speech = later.speech = backend.openSpeech({
    spec,
    rules: {
      vocabSize: config.vocabSize,
      endToken: config.endToken,
      timestampsStart: config.timestampsStart,
      plainTokens: plainTokensOf(config),
    },
    featuresDtype: encoder.inputs[0]!.type as "float32" | "float16",
    logitsDtype: decoder.logitsDtype,
    maxRows: maxRecordings,
    maxRecordings,
  });
  onProgress({ what: "warming up" });
  // On the CPU nothing is compiled, and to encode a window takes long.
  if (backend.kind === "cpu") {
    if (decoder instanceof EncoderDecoder) await decoder.calibrate();
  } else {
    const row = { samples: new Float32Array(0), recording: 0, contentFrames: 0 };
    speech.measure([row]);
    await warmUp(decoder, { row });
    speech.forget(row.recording);
    // No request asked for that window.
    metrics.registry.resetMetrics();
  }
  const alignmentHeads = readAlignmentHeads({ config: folderConfig, generationConfig });
  const windows = new WindowDecoder({ decoder, config, alignmentHeads });
  metrics.adopt(windows.metrics.registry);
  const parts = {
    spec,
    config,
    speech,
    decoder: windows,
    decode: (tokens: number[]) => tokens.length === 0 ? "" : tokenizer.decode(tokens),
  };
  return {
    dtype: graphs.main.dtype,
    sampleRateHz: spec.sampleRateHz,
    // Less two frames: speech may begin and end within a frame.
    maxSpeechSeconds: (spec.frames - 2) * spec.hopSamples / spec.sampleRateHz,
    languages: languagesOf(config),
    whyNoTranslation: whyNoTranslation(config),
    whyNoWordTimes: decoder instanceof EncoderDecoder
      ? undefined
      : "its decoder's graph is not cut, so its attention weights are not available",
    transcribe: (recording) => transcribe(parts, recording),
    dispose: async () => {
      await windows.dispose();
      speech.dispose();
      await encoder.release();
    },
  };
}

function whyNoTranslation({ translateToken, languages }: WhisperConfig): string | undefined {
  if (translateToken !== undefined) return undefined;
  return languages.size === 0
    ? "it knows English alone"
    : "its generation_config.json has no task translate";
}

/** Whisper's encoder as Optimum exports it. */
async function openEncoder(
  context: OpenContext,
  limits: Pick<FeatureEncoderOptions, "maxInputs" | "maxWholeInputs">,
): Promise<FeatureEncoder> {
  await using graph = await readGraph(context, ENCODER);
  const encoder = await openFeatureEncoder(graph.model, {
    ...{ backend: context.backend, files: graph.files, ...limits },
    input: FEATURES,
    output: "last_hidden_state",
  });
  requireKnownInputs(encoder, { isKnown: (name) => name === FEATURES, of: graph.path });
  return encoder;
}

/** Windows whose attention weights fit into memory together. */
function maxWindows({ config }: ModelFolder, frames: number): number {
  const heads = Number(config["encoder_attention_heads"] ?? 16);
  const positions = frames / 2;
  return Math.max(1, Math.floor(MAX_ATTENTION_BYTES / (4 * heads * positions * positions)));
}
