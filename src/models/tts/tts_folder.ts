/**
 * What is known of a folder when one of its synthesizers is loaded.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { LoadProgress } from "../progress.ts";

/** What a family's synthesizer is loaded with. */
export interface TtsLoadOptions {
  readonly backend: Backend;
  readonly onProgress: (progress: LoadProgress) => void;
  /** Folder of a model that tells speakers apart, for a family that speaks with such numbers. */
  readonly speakerEncoderFolder?: string | undefined;
  /** Names of the graphs there are. */
  readonly graphs: ReadonlySet<string>;
  /** The file of a graph, in its dtype. @throws {StartupError} when the folder has no such graph. */
  readonly pathOf: (graph: string) => string;
}
