/**
 * From a folder of a model with a CTC head to one that transcribes.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { OpenContext } from "../family.ts";
import { AsrModel } from "./asr.ts";
import { CtcReader } from "./ctc.ts";
import { readCtcConfig } from "./ctc_config.ts";
import { FrameRecogniser } from "./frame_recogniser.ts";
import { readJson, readOptionalJson } from "../../hub/model_folder.ts";
import { MAX_RECORDINGS } from "./recogniser.ts";
import { findLanguages } from "./spoken_languages.ts";
import { TransformersSpeech } from "./transformers_speech.ts";

/** @throws {StartupError} when the folder lacks a part, or its graph is not a CTC model. */
export async function loadCtc(context: OpenContext): Promise<AsrModel> {
  const { folder, engine } = context;
  const architectures = [folder.config["architectures"] ?? []].flat().map(String);
  if (architectures.length > 0 && !architectures.some((name) => name.endsWith("ForCTC"))) {
    throw new StartupError(
      `${folder.path} is no speech recogniser: its config.json says ${
        architectures.join(", ")
      }, and one that ends in ForCTC is wanted.`,
    );
  }
  const config = readCtcConfig({
    config: folder.config,
    preprocessorConfig: await readOptionalJson(folder, "preprocessor_config.json"),
    tokenizerConfig: await readOptionalJson(folder, "tokenizer_config.json"),
    tokenizer: await readJson(folder.path, "tokenizer.json"),
  });
  const speech = await TransformersSpeech.open(context, "AutoModelForCTC");
  const numClasses = config.vocabulary.texts.length;
  const run = async (samples: Float32Array) => {
    const { logits, dims } = await speech.logits(samples);
    if (dims.at(-1) === numClasses) return { rows: logits, numFrames: dims[1]! };
    throw new StartupError(
      `${folder.path}: its graph gives ${
        dims.at(-1)
      } classes, and config.json says vocab_size is ${numClasses}.`,
    );
  };
  await warmUp(run, speech, context);
  const maxRecordings = engine.maxSequences ?? MAX_RECORDINGS;
  return new AsrModel({
    maxRecordings,
    openRecogniser: (metrics) =>
      new FrameRecogniser({
        dtype: speech.dtype,
        sampleRateHz: speech.sampleRateHz,
        samplesPerFrame: config.samplesPerFrame,
        languages: findLanguages(folder),
        maxRecordings,
        metrics,
        run,
        openReader: () => new CtcReader(config.vocabulary),
        dispose: () => speech.dispose(),
      }),
  });
}

/** The first run checks the graph and compiles its kernels. */
async function warmUp(
  run: (samples: Float32Array) => Promise<unknown>,
  { sampleRateHz }: TransformersSpeech,
  { onProgress }: OpenContext,
): Promise<void> {
  onProgress({ what: "warming up" });
  await run(new Float32Array(sampleRateHz));
}
