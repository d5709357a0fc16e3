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

/** A model ready to work. */
export interface Model {
  readonly kind: ModelKind;
  readonly dtype: Dtype;
  /** Tokens of prompt and completion together, where the kind has such a limit. */
  readonly contextLength: number | undefined;
  /** Fewer if the KV cache holds fewer. */
  readonly maxModelLength?: number | undefined;
  /** Most requests running at once. */
  readonly maxSequences: number;
  /** Codes of the languages that it hears, as far as known; absent unless it recognises speech. */
  readonly languages?: readonly string[] | undefined;
  /** What its voice activity model hears; absent if it has none. */
  readonly voiceActivity?: VoiceWindows | undefined;
  /** Its voices, the default first; absent unless it synthesizes speech. */
  readonly voices?: readonly Voice[] | undefined;
  /** Why a speech synthesis model cannot clone voices; absent if it can. */
  readonly noRecordings?: Refusal | undefined;
  /** Its answers in a chat are lines that it reads off an image: no token is sampled. */
  readonly readsLines?: boolean | undefined;
  /** Absent if it is not served. */
  readonly tokenizer?:
    | Pick<TextTokenizer, "decodeAll" | "encodeInTurns" | "tokenTexts" | "vocabSize">
    | undefined;
  /** A conversation as text; absent if the model does not chat. */
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
