/**
 * Everything a model needs to open.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import type { EngineSettings } from "../../base/config.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { ChosenGraphs } from "./graph_choice.ts";

export interface LoadProgress {
  /** The current step, in words: `reading onnx/model_q4.onnx`. */
  readonly what: string;
  /** Progress from 0 to 1, if known; for a download, over all its files. */
  readonly fraction?: number | undefined;
  /** Details: `238 MB of 568 MB, 12.4 MB/s, 27 s left`. */
  readonly detail?: string | undefined;
}

export interface OpenContext {
  readonly folder: ModelFolder;
  readonly graphs: ChosenGraphs;
  readonly backend: Backend;
  readonly engine: EngineSettings;
  /** The model's id. */
  readonly modelName: string;
  /** Folder of a voice activity model, for speech recognition. */
  readonly vadFolder?: string | undefined;
  /** Folder of a speaker-embedding model, for speech synthesis. */
  readonly speakerEncoderFolder?: string | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}
