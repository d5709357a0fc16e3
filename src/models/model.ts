/**
 * A loaded model, as the worker sees it whatever its kind.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype, ModelKind } from "../config.ts";
import type { ChatEvent, Task } from "../worker/protocol.ts";

/** A model ready to work. */
export interface Model {
  readonly kind: ModelKind;
  readonly dtype: Dtype;
  /** Tokens of prompt and completion together, where the kind has such a limit. */
  readonly contextLength: number | undefined;
  /** Requests worked on at once. */
  readonly maxSequences: number;
  readonly metrics: Registry;
  /**
   * Takes up a task. Its events reach `emit` in order, the last being `done` or `error`.
   *
   * @returns ends the task: nothing is emitted afterwards, and what it held is free before the next step.
   */
  start(task: Task, emit: (event: ChatEvent) => void): () => void;
  dispose(): Promise<void>;
}
