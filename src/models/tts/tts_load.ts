/**
 * Opens a speech synthesis model.
 *
 * @module
 */
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { OpenContext } from "../family.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { TtsModel } from "./tts.ts";

/** What a family's synthesizer is loaded with. */
export type TtsLoadOptions = OpenContext;

/** Opens the graphs of one family. @throws {StartupError} when the folder lacks a part. */
export type LoadSynthesizer = (
  folder: ModelFolder,
  options: TtsLoadOptions,
) => Promise<Synthesizer>;

/** @throws {StartupError} when the folder lacks a part. */
export async function openTts(context: OpenContext, load: LoadSynthesizer): Promise<TtsModel> {
  const { folder, graphs, engine, backend, onProgress } = context;
  const synthesizer = await load(folder, context);
  const model = new TtsModel(synthesizer, {
    dtype: graphs.main.dtype,
    maxSequences: engine.maxSequences,
  });
  // Native code has nothing to compile.
  if (backend.runtime !== "native") {
    onProgress({ what: "warming up" });
    await model.warmUp();
  }
  return model;
}
