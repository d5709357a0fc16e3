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
import { WhisperGraphs } from "./whisper_graphs.ts";

/** Most memory that the encoder's attention weights may take, all heads of all windows of one layer. */
const MAX_ATTENTION_BYTES = 2 ** 28;

/** @throws {StartupError} when the folder is no Whisper model, or lacks a part. */
export async function loadWhisper(context: OpenContext): Promise<AsrModel> {
  const { folder, backend, engine, onProgress } = context;
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
  const graphs = await WhisperGraphs.load({
    ...context,
    maxRows: maxRecordings,
    maxWholeInputs: maxWindows(folder, spec.frames),
  });
  const { logitsDtype, featuresDtype } = graphs;
  const parts = {
    graphs,
    spec,
    config,
    alignmentHeads: readAlignmentHeads({ config: folderConfig, generationConfig }),
    decode: (tokens: number[]) => tokens.length === 0 ? "" : tokenizer.decode(tokens),
    maxRecordings,
    maxGroupRows: graphs.maxInputs,
    sampler: backend.openSampler({
      vocabSize: config.vocabSize,
      dtype: logitsDtype,
      maxRows: maxRecordings,
    }),
    speech: backend.openSpeech({
      spec,
      rules: {
        vocabSize: config.vocabSize,
        endToken: config.endToken,
        timestampsStart: config.timestampsStart,
        plainTokens: plainTokensOf(config),
      },
      featuresDtype,
      logitsDtype,
      maxRows: maxRecordings,
      maxRecordings,
    }),
  };
  return new AsrModel({
    maxRecordings,
    openRecogniser: (metrics) => new WhisperRecogniser({ ...parts, metrics }),
  });
}

/** Windows whose attention weights fit into memory together. */
function maxWindows({ config }: ModelFolder, frames: number): number {
  const heads = Number(config["encoder_attention_heads"] ?? 16);
  const places = frames / 2;
  return Math.max(1, Math.floor(MAX_ATTENTION_BYTES / (4 * heads * places * places)));
}
