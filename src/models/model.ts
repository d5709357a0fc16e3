/**
 * A loaded model of any kind as the worker sees it, and everything that it is opened with.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype, EngineSettings, ModelKind } from "../base/config.ts";
import { HearthError, type Refusal } from "../base/errors.ts";
import type { Conversation, Task, TaskEvent, Voice, VoiceWindows } from "./task.ts";
import type { TextTokenizer } from "./text/tokenizer.ts";
import type { Backend } from "../device/backend.ts";
import type { ModelFolder } from "../hub/model_folder.ts";
import type { ChosenGraphs } from "./folder/graph_choice.ts";

/** A model that is ready to work. */
export interface Model {
  readonly kind: ModelKind;
  readonly dtype: Dtype;
  /** Most tokens of prompt and completion together, if the kind has such a limit. */
  readonly contextLength: number | undefined;
  /** The same limit, lowered to what fits in the KV cache. */
  readonly maxModelLength?: number | undefined;
  /** Most requests running at once. */
  readonly maxSequences: number;
  /** Codes of the languages it recognises, as far as known; absent unless it recognises speech. */
  readonly languages?: readonly string[] | undefined;
  /** The windows of its voice activity model; absent if it has none. */
  readonly voiceActivity?: VoiceWindows | undefined;
  /** Its voices, the default first; absent unless it synthesizes speech. */
  readonly voices?: readonly Voice[] | undefined;
  /** Why a speech synthesis model cannot clone voices; absent if it can. */
  readonly noRecordings?: Refusal | undefined;
  /** Whether its chat answers are lines read from an image, without sampling. */
  readonly readsLines?: boolean | undefined;
  /** Whether messages may hold sounds. */
  readonly takesAudio?: boolean | undefined;
  /** Its tokenizer; absent if the API does not offer it. */
  readonly tokenizer?:
    | Pick<TextTokenizer, "decodeAll" | "encodeInSlices" | "tokenTexts" | "vocabSize">
    | undefined;
  /** Renders a conversation as text; absent if the model does not chat. */
  render?(chat: Conversation): string;
  readonly metrics: Registry;
  /**
   * Starts a task. Its events are passed to `emit` in order, the last being `done` or `error`. A model that streams
   * long answers awaits the result of `emit`, which resolves when a slow reader has caught up.
   *
   * @param task of a type that the model's kind serves.
   * @returns a function that cancels the task: nothing is emitted afterwards, and its resources are free before the
   * next step.
   */
  start(task: Task, emit: (event: TaskEvent) => Promise<void>): () => void;
  /** Does work that the first request would have to wait for. Called once the model is ready and idle. */
  prepare?(): Promise<void>;
  dispose(): Promise<void>;
}

/** @throws {HearthError} `unsupported_by_model` unless the task is of this type. */
export function requireTask<T extends Task["type"]>(
  task: Task,
  type: T,
): asserts task is Extract<Task, { type: T }> {
  if (task.type === type) return;
  throw new HearthError(
    "unsupported_by_model",
    `The loaded model takes ${type} tasks, not ${task.type} tasks.`,
  );
}

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
