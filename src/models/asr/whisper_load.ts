/**
 * Opens a recogniser from a folder of Whisper's architecture.
 *
 * @module
 */
import { type LogMelSpec, readLogMelSpec } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { OpenContext } from "../model.ts";
import { type ModelFolder, numberAt, readOptionalJson } from "../../hub/model_folder.ts";
import {
  listPlainTokens,
  readAlignmentHeads,
  readWhisperConfig,
  toLanguages,
  type WhisperConfig,
} from "./whisper_config.ts";
import type { Recogniser, RecogniserOptions } from "./recogniser.ts";
import { WindowDecoder, type WindowInput } from "./window_decoder.ts";
import type { SpeechKernels } from "../../device/media.ts";
import { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import type { WholeDecoder } from "../../decoder/whole_decoder.ts";
import { warmUp } from "../../engine/generate.ts";
import { loadEncoderDecoder } from "../folder/decoder_load.ts";
import {
  type FeatureEncoder,
  type FeatureEncoderOptions,
  FEATURES,
  openFeatureEncoder,
} from "./feature_encoder.ts";
import { readGraph, requireKnownInputs } from "../folder/graph_file.ts";
import { readTokenizer } from "../text/tokenizer_files.ts";
import { transcribe } from "./whisper_transcriber.ts";

const ENCODER = "encoder_model";
/** Most memory for the encoder's attention weights: one layer, all heads, all windows of a batch. */
const MAX_ATTENTION_BYTES = 2 ** 28;

/** @throws {StartupError} when the folder is not a Whisper model, or a file is missing. */
export async function loadWhisper(
  context: OpenContext,
  { maxRecordings, metrics }: RecogniserOptions,
): Promise<Recogniser> {
  const { folder, graphs, onProgress } = context;
  onProgress({ what: "reading the tokenizer" });
  const { tokenizer } = await readTokenizer(folder);
  const files = {
    config: folder.config,
    generationConfig: await readOptionalJson(folder, "generation_config.json"),
  };
  const config = readWhisperConfig(files, (token) => tokenizer.tokenToId(token));
  const spec = readLogMelSpec(await readOptionalJson(folder, "preprocessor_config.json"));
  const parts = await openParts(context, { maxRecordings, metrics, config, spec });
  const { encoder, decoder, speech } = parts;
  onProgress({ what: "warming up" });
  await warmUpWhisper(parts, { backend: context.backend, metrics });
  const windows = new WindowDecoder({ decoder, config, alignmentHeads: readAlignmentHeads(files) });
  metrics.adopt(windows.metrics.registry);
  const decode = (tokens: number[]) => tokenizer.decode(tokens);
  return {
    dtype: graphs.main.dtype,
    sampleRateHz: spec.sampleRateHz,
    // Two frames less than a window, as speech may begin and end within a frame.
    maxSpeechSeconds: (spec.frames - 2) * spec.hopSamples / spec.sampleRateHz,
    languages: toLanguages(config),
    whyNoTranslation: whyNoTranslation(config),
    whyNoWordTimes: decoder instanceof EncoderDecoder
      ? undefined
      : "its decoder's graph is not cut, so its attention weights are not available",
    transcribe: (recording) =>
      transcribe({ spec, config, speech, decoder: windows, decode }, recording),
    dispose: async () => {
      await windows.dispose();
      speech.dispose();
      await encoder.release();
    },
  };
}

interface WhisperParts {
  readonly encoder: FeatureEncoder;
  readonly decoder: EncoderDecoder<WindowInput> | WholeDecoder;
  readonly speech: SpeechKernels;
}

/** Opens the graphs, and the kernels before the encoder and after the decoder. */
async function openParts(
  context: OpenContext,
  { maxRecordings, metrics, config, spec }: RecogniserOptions & {
    readonly config: WhisperConfig;
    readonly spec: LogMelSpec;
  },
): Promise<WhisperParts> {
  const { folder, backend } = context;
  const encoder = await openEncoder(context, {
    maxInputs: maxRecordings,
    maxWholeInputs: computeMaxWindows(folder, spec.frames),
  });
  // The kernels are opened last, as they need the data type of the decoder's logits.
  const later: { speech?: SpeechKernels } = {};
  const decoder = await loadEncoderDecoder<WindowInput>({
    ...context,
    vocabSize: config.vocabSize,
    contextLength: numberAt(folder.config, "max_target_positions") ?? 448,
    numPositions: numberAt(folder.config, "max_source_positions") ?? 1500,
    maxSequences: maxRecordings,
    encoder: {
      maxInputs: encoder.maxInputs,
      encode: (windows) =>
        metrics.encoding(
          () => encoder.encode(later.speech!.features(windows.map(({ row }) => row))),
          windows.length,
        ),
    },
    processLogits: (logits, rows) => {
      const rules = rows.map(({ rule }) => rule);
      if (rules.some((rule) => rule !== undefined)) later.speech!.restrict(logits, rules);
    },
  });
  const speech = later.speech = backend.openSpeech({
    spec,
    rules: { ...config, plainTokens: listPlainTokens(config) },
    featuresDtype: encoder.inputs[0]!.type as "float32" | "float16",
    logitsDtype: decoder.logitsDtype,
    maxRows: maxRecordings,
    maxRecordings,
  });
  return { encoder, decoder, speech };
}

async function warmUpWhisper(
  { decoder, speech }: WhisperParts,
  { backend, metrics }: Pick<OpenContext, "backend"> & Pick<RecogniserOptions, "metrics">,
): Promise<void> {
  // On the CPU nothing is compiled, and encoding a window takes long.
  if (backend.kind === "cpu") return;
  const row = { samples: new Float32Array(0), recording: 0, contentFrames: 0 };
  speech.measure([row]);
  await warmUp(decoder, { row });
  speech.forget(row.recording);
  // Warming up is not counted: no request asked for it.
  metrics.registry.resetMetrics();
}

function whyNoTranslation({ translateToken, languages }: WhisperConfig): string | undefined {
  if (translateToken !== undefined) return undefined;
  return languages.size === 0
    ? "it knows English alone"
    : "its generation_config.json has no task translate";
}

/** Opens Whisper's encoder as Optimum exports it. */
async function openEncoder(
  context: OpenContext,
  limits: Pick<FeatureEncoderOptions, "maxInputs" | "maxWholeInputs">,
): Promise<FeatureEncoder> {
  await using graph = await readGraph(context, ENCODER);
  const { backend } = context;
  const encoder = await openFeatureEncoder(graph.model, { backend, files: graph.files, ...limits });
  requireKnownInputs(encoder, { isKnown: (name) => name === FEATURES, of: graph.path });
  return encoder;
}

/** The number of windows whose attention weights fit into the memory together. */
function computeMaxWindows({ config }: ModelFolder, frames: number): number {
  const heads = Number(config["encoder_attention_heads"] ?? 16);
  const positions = frames / 2;
  return Math.max(1, Math.floor(MAX_ATTENTION_BYTES / (4 * heads * positions * positions)));
}
