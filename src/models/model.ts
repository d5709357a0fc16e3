/**
 * The worker's interface of a loaded model of any kind.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype, ModelKind } from "../base/config.ts";
import { HearthError, type Refusal } from "../base/errors.ts";
import type { Conversation, Task, TaskEvent, Voice, VoiceWindows } from "./task.ts";
import type { TextTokenizer } from "./text/tokenizer.ts";

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
