/**
 * Messages between the server's thread and the worker that owns the device: a few about the worker itself, and for each
 * request one task with a `MessagePort` for its events.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type {
  CpuRuntimeChoice,
  DeviceChoice,
  Dtype,
  EngineSettings,
  LogSettings,
  ModelKind,
  ResolvedModel,
} from "../base/config.ts";
import type { SettingNames } from "../base/errors.ts";
import type { Backend } from "../device/backend.ts";
import type { LoadProgress, Model } from "../models/model.ts";
import type { Task, TaskEvent } from "../models/task.ts";

/** The model that the worker loads, and options for loading it. */
export interface LoadOptions {
  readonly model: ResolvedModel;
  readonly device: DeviceChoice;
  /** ONNX Runtime's build for the CPU; the fastest that loads if absent. */
  readonly cpuRuntime?: CpuRuntimeChoice | undefined;
  /** Data type of the weights; the best one for the device if absent. */
  readonly dtype?: Dtype | undefined;
  /** Kind of the model; detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
  readonly engine: EngineSettings;
  /** Folder of a voice-activity model, for speech recognition. */
  readonly vadFolder?: string | undefined;
  /** Folder of a speaker-embedding model, for speech synthesis conditioned on such embeddings. */
  readonly speakerEncoderFolder?: string | undefined;
  readonly log: LogSettings;
  /** The user's names for the settings that errors mention. */
  readonly settingNames: SettingNames;
}

/** A loaded model, as far as the server needs to know it. */
export interface ModelInfo extends
  Omit<ResolvedModel, "folder">,
  Pick<
    Model,
    | "kind"
    | "dtype"
    | "contextLength"
    | "maxModelLength"
    | "maxSequences"
    | "languages"
    | "voiceActivity"
    | "voices"
    | "readsLines"
    | "takesAudio"
  >,
  Pick<Backend, "runtime" | "adapter"> {
  /** Time when its files were written, in seconds since 1970. */
  readonly createdSeconds: number;
  readonly backend: Backend["kind"];
  /** The reason why a speech synthesis model cannot clone voices; absent if it can. */
  readonly noRecordings?: string | undefined;
}

/** Server to worker. */
export type ToWorker =
  | {
    readonly type: "load";
    readonly options: LoadOptions;
    /** Port on which the worker asks for helper threads; see `startThreadsBy`. */
    readonly threads: MessagePort;
    /** Memory in which the worker counts its steps; see `countStepsIn`. */
    readonly steps: SharedArrayBuffer;
  }
  | { readonly type: "request"; readonly task: Task; readonly port: MessagePort }
  | { readonly type: "metrics"; readonly id: number }
  /** Answered with `pong` as soon as the thread handles messages. */
  | { readonly type: "ping" }
  | { readonly type: "stop" };

/** Worker to server. */
export type FromWorker =
  | { readonly type: "progress"; readonly progress: LoadProgress }
  | { readonly type: "ready"; readonly info: ModelInfo }
  | { readonly type: "failed"; readonly reason: string }
  /** The device is gone: this worker can do nothing more. */
  | { readonly type: "lost"; readonly reason: string }
  | { readonly type: "metrics"; readonly id: number; readonly metrics: MetricObject[] }
  | { readonly type: "pong" }
  | { readonly type: "stopped" };

/** Server to worker, on a request's own port. */
export type ToRequest =
  /** After this message, the server closes the port. */
  | { readonly type: "cancel" }
  /** The server has read a chunk of the answer; see {@linkcode isPaced}. */
  | { readonly type: "taken" };

/** Whether the worker waits for a slow reader before it sends more such events. */
export function isPaced(event: TaskEvent): boolean {
  return event.type === "audio";
}

/** Counts chunks that were sent but not yet taken, and makes the sender wait when there are too many. */
export class Backpressure {
  readonly #max: number;
  #numUnread = 0;
  #room: PromiseWithResolvers<void> | undefined;

  /** @param max maximum number of unread chunks, including the one that is being made. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a chunk that was sent. Resolves when the next may be made. */
  sent(): Promise<void> {
    if (++this.#numUnread < this.#max) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** Counts a chunk that the reader has taken. */
  taken(): void {
    this.#numUnread--;
    if (this.#numUnread < this.#max) this.#release();
  }

  /** Stops counting, because the reader has gone: the sender no longer waits. */
  disable(): void {
    this.#numUnread = -Infinity;
    this.#release();
  }

  #release(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
