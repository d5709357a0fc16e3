/**
 * From a folder of Whisper's architecture to a model that transcribes.
 *
 * @module
 */
import { Tokenizer } from "@huggingface/tokenizers";
import { readLogMelSpec } from "../../../kernels/log_mel_spec.ts";
import { readAlignmentHeads } from "./alignment_heads.ts";
import type { OpenContext } from "../family.ts";
import { AsrModel } from "./asr.ts";
import { type ModelFolder, readJson, readOptionalJson } from "../../hub/model_folder.ts";
import { plainTokensOf, readWhisperConfig } from "./whisper_config.ts";
import { MAX_RECORDINGS } from "./recogniser.ts";
import { WhisperRecogniser } from "./whisper_recogniser.ts";
import { openWhisperEncoder } from "./whisper_encoder.ts";
import type { WindowInput } from "./whisper_window.ts";
import { WindowDecoder } from "./window_decoder.ts";
import type { SpeechKernels } from "../../backend/speech.ts";
import { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { loadEncoderDecoder } from "../encoder_decoder_load.ts";
import type { SpeechMetrics } from "./speech_metrics.ts";

/** Most memory that the encoder's attention weights may take, all heads of all windows of one layer. */
const MAX_ATTENTION_BYTES = 2 ** 28;

/** @throws {StartupError} when the folder is not a Whisper model, or a part is missing. */
export async function loadWhisper(context: OpenContext): Promise<AsrModel> {
  const { folder, graphs, backend, engine, onProgress } = context;
  const { config: folderConfig, path } = folder;
  onProgress({ what: "reading the tokenizer" });
  const tokenizer = new Tokenizer(
    await readJson(path, "tokenizer.json"),
    await readOptionalJson(folder, "tokenizer_config.json"),
  );
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const config = readWhisperConfig(
    { config: folderConfig, generationConfig },
    (token) => tokenizer.token_to_id(token) ?? undefined,
  );
  const spec = readLogMelSpec(await readOptionalJson(folder, "preprocessor_config.json"));
  const maxRecordings = engine.maxSequences ?? MAX_RECORDINGS;
  const encoder = await openWhisperEncoder({
    ...context,
    maxInputs: maxRecordings,
    maxWholeInputs: maxWindows(folder, spec.frames),
  });
  // Known when the decoder is open.
  const later: { speech?: SpeechKernels; metrics?: SpeechMetrics } = {};
  const sizeOf = (name: string, otherwise: number) => {
    const value = folderConfig[name];
    return typeof value === "number" ? value : otherwise;
  };
  const decoder = await loadEncoderDecoder<WindowInput>({
    ...context,
    vocabSize: config.vocabSize,
    contextLength: sizeOf("max_target_positions", 448),
    numPositions: sizeOf("max_source_positions", 1500),
    maxSequences: maxRecordings,
    encoder: {
      maxInputs: encoder.maxInputs,
      encode: async (windows) => {
        const startMs = performance.now();
        const hidden = await encoder.encode(later.speech!.features(windows.map(({ row }) => row)));
        later.metrics?.observeEncoding(windows.length, performance.now() - startMs);
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
  // On the CPU there is nothing to compile or to choose, and to encode a window takes long.
  if (backend.kind === "webgpu") {
    onProgress({ what: "warming up" });
    const row = { samples: new Float32Array(0), recording: 0, contentFrames: 0 };
    speech.measure([row]);
    await warmUp(decoder, { row });
    speech.forget(row.recording);
  }
  const alignmentHeads = readAlignmentHeads({ config: folderConfig, generationConfig });
  const windows = new WindowDecoder({ decoder, config, alignmentHeads });
  const recogniser = new WhisperRecogniser({
    dtype: graphs.main.dtype,
    encoder,
    decoder: windows,
    hasAlignment: decoder instanceof EncoderDecoder,
    spec,
    config,
    speech,
    decode: (tokens: number[]) => tokens.length === 0 ? "" : tokenizer.decode(tokens),
    maxRecordings,
  });
  return new AsrModel({
    maxRecordings,
    openRecogniser: (own) => {
      later.metrics = own;
      own.adopt(windows.metrics);
      return recogniser;
    },
  });
}

/** Windows whose attention weights fit into memory together. */
function maxWindows({ config }: ModelFolder, frames: number): number {
  const heads = Number(config["encoder_attention_heads"] ?? 16);
  const positions = frames / 2;
  return Math.max(1, Math.floor(MAX_ATTENTION_BYTES / (4 * heads * positions * positions)));
}
