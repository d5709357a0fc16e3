/**
 * Opens a Whisper model, whose encoder is cut at its attention nodes if the graph allows that.
 *
 * @module
 */
import { type LogMelSpec, readLogMelSpec } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { OpenContext } from "../model.ts";
import { type ModelFolder, readNumber, readOptionalJson } from "../../hub/model_folder.ts";
import {
  makePlainTokenMask,
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
import { readGraph, requireKnownInputs } from "../folder/graph_file.ts";
import { readTokenizer } from "../text/tokenizer_files.ts";
import { transcribe } from "./whisper_transcriber.ts";
import { selfBounds } from "../../../kernels/attention/packed_attention.ts";
import type { Backend } from "../../device/backend.ts";
import { openSegments } from "../../decoder/open_segments.ts";
import {
  type AxisSizes,
  computeBytes,
  planStorage,
  resolveDims,
} from "../../decoder/activations.ts";
import { StepExecutor } from "../../decoder/step_executor.ts";
import type { FolderFiles } from "../../graph/file/external_data.ts";
import type { Tensor, ValueInfo } from "../../device/ort/ort.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { fuseAttention } from "../../graph/rewrite/fused_operators.ts";
import { cutFeatures, type FeatureCut } from "../../graph/cut/cut_features.ts";

const ENCODER = "encoder_model";
/** Maximum memory for the encoder's attention weights: one layer, all heads, all windows of a batch. */
const MAX_ATTENTION_BYTES = 2 ** 28;

/** @throws {StartupError} when a file is missing from the folder, or the folder does not hold a Whisper model. */
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
    // Two frames less than a window, as speech may begin and end in the middle of a frame.
    maxSpeechSeconds: (spec.frames - 2) * spec.hopSamples / spec.sampleRateHz,
    languages: toLanguages(config),
    whyNoTranslation: explainNoTranslation(config),
    whyNoWordTimes: decoder instanceof EncoderDecoder
      ? undefined
      : "the graph of its decoder is not cut, so its attention weights are not available",
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

/** Opens the graphs, and the kernels that run before the encoder and after the decoder. */
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
    contextLength: readNumber(folder.config, "max_target_positions") ?? 448,
    numPositions: readNumber(folder.config, "max_source_positions") ?? 1500,
    maxSequences: maxRecordings,
    encoder: {
      maxInputs: encoder.maxInputs,
      encode: (windows) =>
        metrics.measureEncoding(
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
    rules: { ...config, plainTokens: makePlainTokenMask(config) },
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
  // On the CPU there are no kernels to compile, and encoding a window takes long.
  if (backend.kind === "cpu") return;
  const row = { samples: new Float32Array(0), recording: 0, contentFrames: 0 };
  speech.measure([row]);
  await warmUp(decoder, { row });
  speech.forget(row.recording);
  // Metrics count only the work of requests.
  metrics.registry.resetMetrics();
}

function explainNoTranslation({ translateToken, languages }: WhisperConfig): string | undefined {
  if (translateToken !== undefined) return undefined;
  return languages.size === 0
    ? "it knows only English"
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

/** Computes the number of windows whose attention weights fit into memory together. */
function computeMaxWindows({ config }: ModelFolder, frames: number): number {
  const heads = Number(config["encoder_attention_heads"] ?? 16);
  const positions = frames / 2;
  return Math.max(1, Math.floor(MAX_ATTENTION_BYTES / (4 * heads * positions * positions)));
}

/** Encodes the features of windows for the decoder. */
interface FeatureEncoder {
  /** Maximum number of windows in one call. */
  readonly maxInputs: number;
  readonly inputs: readonly ValueInfo[];
  /**
   * Encodes features of one size.
   *
   * @param features `[windows, …]`.
   * @returns `[windows, tokens, width]`, owned by the caller.
   */
  encode(features: Tensor): Promise<Tensor>;
  release(): Promise<void>;
}

interface FeatureEncoderOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** Maximum number of windows encoded together. */
  readonly maxInputs: number;
  /** Maximum number of windows encoded together by an uncut graph, whose attention weights take more memory. */
  readonly maxWholeInputs: number;
}

/** Name of the graph's input in Optimum's exports. */
const FEATURES = "input_features";
/** Name of the graph's output in Optimum's exports. */
const HIDDEN = "last_hidden_state";
/**
 * Maximum number of windows in a batch. Larger batches are not faster per window, and make later windows wait longer.
 */
const MAX_INPUTS = 16;
/** Memory for tensors passed between segments, unless one window needs more. */
const ACTIVATION_BYTES = 2 ** 28;

/** @throws {Error} with ONNX Runtime's message when it refuses the graph. */
export async function openFeatureEncoder(
  model: ModelProto,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  // Native ONNX Runtime uses wider SIMD than our kernel: the uncut graph took 0.9 CPU seconds, the cut one 2.5.
  const isCut = options.backend.runtime !== "native";
  const cut = isCut ? cutFeatures(model, HIDDEN) : undefined;
  if (cut !== undefined) {
    try {
      return await openCutEncoder(cut, options);
    } catch (error) {
      // The kernel does not support these heads.
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const { maxInputs, maxWholeInputs } = options;
  const whole = isCut ? model : fuseAttention(model);
  const session = await options.backend.openModel(whole, options.files);
  return {
    // One window keeps all cores busy, so batches would only take more memory.
    maxInputs: isCut ? Math.min(maxInputs, MAX_INPUTS, maxWholeInputs) : 1,
    inputs: session.inputs,
    encode: async (features) => (await session.run({ [FEATURES]: features }))[HIDDEN]!,
    release: () => session.release(),
  };
}

/** @throws {RangeError} when the kernel cannot run one of the graph's attention nodes. */
async function openCutEncoder(
  cut: FeatureCut,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  const { backend } = options;
  const { chunks } = planStorage(cut, (port) => computeBytes(port, computeSizes(1)));
  const perInput = chunks.reduce((sum, bytes) => sum + bytes, 0);
  const fitting = Math.min(
    ACTIVATION_BYTES / perInput,
    backend.maxBufferBytes / Math.max(...chunks),
  );
  const maxInputs = Math.max(1, Math.min(options.maxInputs, MAX_INPUTS, Math.floor(fitting)));
  const attention = backend.openPackedAttention({
    nodes: cut.attentions,
    maxRows: maxInputs * cut.numTokens,
    maxSequences: maxInputs,
  });
  const sessions = await openSegments(cut, options).catch((error) => {
    attention.dispose();
    throw error;
  });
  const runner = new StepExecutor({
    backend,
    cut,
    sessions,
    most: computeSizes(maxInputs),
    attend: ({ layer, output }, { tensors, output: into, sizes }) =>
      attention.run(layer, tensors, into).reshape(resolveDims(output, sizes)),
    callerOwnsOutput: true,
  });
  return {
    maxInputs,
    inputs: sessions[0]!.inputs,
    encode: async (features) => {
      const numInputs = features.dims[0]!;
      const tensors = new Map([[FEATURES, features]]);
      attention.begin(selfBounds(new Array(numInputs).fill(cut.numTokens)));
      await runner.run(tensors, computeSizes(numInputs));
      return tensors.get(cut.output.name)!;
    },
    release: async () => {
      attention.dispose();
      await runner.dispose();
    },
  };
}

/** Makes the sizes of the graph's variable axes, of which only `rows`, the number of windows, is used. */
function computeSizes(numInputs: number): AxisSizes {
  return { tokens: 0, rows: numInputs };
}
