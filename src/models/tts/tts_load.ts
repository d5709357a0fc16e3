/**
 * From a folder to a model that speaks.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { deviceClassOf } from "../../backend/device_class.ts";
import type { Dtype } from "../../config.ts";
import { StartupError } from "../../errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { chooseFiles, graphNameOf } from "../needed_files.ts";
import type { LoadProgress } from "../progress.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { TtsModel } from "./tts.ts";
import type { TtsLoadOptions } from "./tts_folder.ts";
import { ChatterboxSynthesizer } from "./tts_chatterbox.ts";
import { KokoroSynthesizer } from "./tts_kokoro.ts";
import { SpeechT5Synthesizer } from "./tts_speecht5.ts";
import { SupertonicSynthesizer } from "./tts_supertonic.ts";
import { VitsSynthesizer } from "./tts_vits.ts";

type Load = (folder: ModelFolder, options: TtsLoadOptions) => Promise<Synthesizer>;

/** By `model_type`. */
const FAMILIES: Readonly<Record<string, Load>> = {
  chatterbox: ChatterboxSynthesizer.load,
  style_text_to_speech_2: KokoroSynthesizer.load,
  supertonic: SupertonicSynthesizer.load,
  vits: VitsSynthesizer.load,
  speecht5: SpeechT5Synthesizer.load,
};

/** How to load. */
export interface TtsModelOptions {
  readonly backend: Backend;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly dtype?: Dtype | undefined;
  /** Most texts at a time. */
  readonly maxSequences?: number | undefined;
  /** Folder of a model that tells speakers apart, for SpeechT5. */
  readonly speakerEncoderFolder?: string | undefined;
}

/** @throws {StartupError} when the folder's family is not known, or it lacks a part. */
export async function loadTts(folder: ModelFolder, options: TtsModelOptions): Promise<TtsModel> {
  const { synthesizer, dtype } = await openSynthesizer(folder, options);
  const model = new TtsModel(synthesizer, { ...options, dtype });
  options.onProgress({ what: "warming up" });
  await model.warmUp();
  return model;
}

/** Opens the graphs of a folder, in the dtype asked for or the one that suits best. @throws {StartupError} as {@linkcode loadTts} does. */
export async function openSynthesizer(
  folder: ModelFolder,
  { backend, onProgress, dtype: wish, speakerEncoderFolder }: TtsModelOptions,
): Promise<{ synthesizer: Synthesizer; dtype: Dtype }> {
  const type = String(folder.config["model_type"] ?? "");
  const load = FAMILIES[type];
  if (load === undefined) {
    throw new StartupError(
      `${folder.path} is a speech model of type "${type}"; Hearth speaks with ${
        Object.keys(FAMILIES).join(", ")
      }.`,
    );
  }
  if (speakerEncoderFolder !== undefined && type !== "speecht5") {
    throw new StartupError(
      `--speaker-encoder is for SpeechT5, and ${folder.path} is a speech model of type "${type}".`,
    );
  }
  const device = deviceClassOf(backend);
  const { dtype, graphs } = chooseFiles(folder, { kind: "tts", device, dtype: wish });
  const paths = new Map(graphs.map((path) => [graphNameOf(path), path]));
  const synthesizer = await load(folder, {
    backend,
    onProgress,
    speakerEncoderFolder,
    graphs: new Set(paths.keys()),
    pathOf: (graph) => {
      const path = paths.get(graph);
      if (path === undefined) throw new StartupError(`${folder.path} has no onnx/${graph}*.onnx.`);
      return path;
    },
  });
  return { synthesizer, dtype };
}
