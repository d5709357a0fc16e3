/**
 * A loaded model, as the worker sees it whatever its kind.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype, ModelKind } from "../config.ts";
import { HearthError } from "../errors.ts";
import type { ModelTokenizer } from "./model_tokenizer.ts";
import type { Task, TaskEvent, VoiceInfo } from "./task.ts";

/** A model ready to work. */
export interface Model {
  readonly kind: ModelKind;
  readonly dtype: Dtype;
  /** Tokens of prompt and completion together, where the kind has such a limit. */
  readonly contextLength: number | undefined;
  /** Fewer where the KV cache holds fewer. */
  readonly maxModelLength?: number | undefined;
  /** Requests worked on at once. */
  readonly maxSequences: number;
  /** Whom it can speak as, the default first; absent where it does not speak. */
  readonly voices?: readonly VoiceInfo[] | undefined;
  /** Why a model that speaks does not take on the voices of recordings; absent where it does. */
  readonly noRecordings?: string | undefined;
  /** Absent where it is not served. */
  readonly tokenizer?: ModelTokenizer | undefined;
  readonly metrics: Registry;
  /**
   * Takes up a task. Its events reach `emit` in order, the last being `done` or `error`. A model that makes long answers
   * piece by piece waits for what `emit` returns, which takes as long as a slow reader lags behind.
   *
   * @param task of a type that the model's kind serves.
   * @returns ends the task: nothing is emitted afterwards, and what it held is free before the next step.
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
