/**
 * Keeps a worker running: resolves which model to load, starts the worker, and replaces it when it is lost. It reports
 * each change of the session's state.
 *
 * @module
 */
import { basename } from "node:path";
import type { MetricObject } from "prom-client";
import { HearthError, StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { LoadProgress } from "../../models/model.ts";
import type { Task } from "../../models/task.ts";
import type { LoadOptions, ModelInfo } from "../../worker/protocol.ts";
import { type LossCause, WorkerClient } from "./client.ts";
import { ModelMarks } from "../../hub/list_files.ts";
import { spawnModelWorker } from "./spawn_worker.ts";

const METRICS_TIMEOUT_MS = 1_000;
const WORKER_TIMEOUT_SECONDS = 30;
const FILES_CHECK_MS = 10_000;
const STOP_TIMEOUT_MS = 500;

/**
 * Resolves which model the worker is to load, and downloads it if needed.
 *
 * @throws {StartupError} when the model cannot be found or downloaded.
 */
export type Prepare = (options: {
  readonly onProgress: (progress: LoadProgress) => void;
  /** Aborted when the session stops. */
  readonly signal: AbortSignal;
}) => Promise<LoadOptions>;

/** Options for starting workers. */
export interface SupervisorOptions {
  readonly load: LoadOptions | Prepare;
  /** Starts the thread that owns the device. */
  readonly spawnWorker?: () => Worker;
  /** Seconds that a worker may be silent while it neither loads nor runs a step; 30 if absent. */
  readonly workerTimeoutSeconds?: number;
  /** Time between checks of the model's files; 10 s if absent. */
  readonly filesCheckMs?: number;
  /** Whether the process exits right after `stop()`, which ends the thread as well. */
  readonly exitsAfterStop?: boolean;
}

/**
 * Receives changes of the session's state, and losses of workers. After the supervisor is retired or the model's files
 * have changed, only losses are reported.
 */
interface SupervisorListener {
  onState(state: Exclude<SessionState, { phase: "stopping" }>): void;
  /**
   * Called when a worker is lost, after the new state was reported. The listener ends the worker's requests.
   *
   * @returns the number of requests that it ended.
   */
  onLost(reason: string): number;
}

/** Starts, watches and replaces the worker of one session. */
export class WorkerSupervisor {
  readonly #load: LoadOptions | Prepare;
  readonly #spawnWorker: () => Worker;
  readonly #timeoutMs: number;
  readonly #filesCheckMs: number;
  readonly #exitsAfterStop: boolean;
  readonly #listener: SupervisorListener;
  readonly #restarts = new RestartPolicy();
  readonly #retirement = new AbortController();
  #client: WorkerClient | undefined;
  #restartTimer: ReturnType<typeof setTimeout> | undefined;
  /** The state of the model's files when it was first loaded. */
  #marks: Promise<ModelMarks> | undefined;
  #filesTimer: ReturnType<typeof setInterval> | undefined;
  #isChanged = false;
  #numLosses = 0;
  #numSilent = 0;

  constructor(options: SupervisorOptions, listener: SupervisorListener) {
    this.#load = options.load;
    this.#spawnWorker = options.spawnWorker ?? spawnModelWorker;
    this.#timeoutMs = (options.workerTimeoutSeconds ?? WORKER_TIMEOUT_SECONDS) * 1000;
    this.#filesCheckMs = options.filesCheckMs ?? FILES_CHECK_MS;
    this.#exitsAfterStop = options.exitsAfterStop ?? false;
    this.#listener = listener;
  }

  /** Workers lost since the start. */
  get numLosses(): number {
    return this.#numLosses;
  }

  /** Workers lost since the start because they no longer responded. */
  get numSilent(): number {
    return this.#numSilent;
  }

  /** Seconds since the worker last responded; 0 while it runs a step or loads, and without a worker. */
  get silentSeconds(): number {
    return this.#client?.silentSeconds ?? 0;
  }

  /** Starts the worker, which loads the model. Call it once. */
  start(): void {
    if (typeof this.#load === "function") this.#prepare(this.#load);
    else this.#startWorker(this.#load);
  }

  /** Sends a request to the worker, which must be ready. Its events arrive at the other end of `port`. */
  request(task: Task, port: MessagePort): void {
    if (this.#client === undefined) {
      throw new Error("A request was made before a worker was started.");
    }
    this.#client.request(task, port);
  }

  /** Returns the worker's metrics, or those it reported last if it does not answer in time. */
  async metrics(): Promise<MetricObject[]> {
    return await this.#client?.metrics(METRICS_TIMEOUT_MS) ?? [];
  }

  /** Starts no further worker. A running worker continues. */
  retire(): void {
    clearTimeout(this.#restartTimer);
    clearInterval(this.#filesTimer);
    this.#retirement.abort();
  }

  /** Retires the supervisor, and stops the worker. */
  async stop(): Promise<void> {
    this.retire();
    await this.#client?.stop(STOP_TIMEOUT_MS);
  }

  async #prepare(prepare: Prepare): Promise<void> {
    const { signal } = this.#retirement;
    const onProgress = (progress: LoadProgress) => this.#tell({ phase: "loading", progress });
    try {
      const load = await prepare({ onProgress, signal });
      if (!signal.aborted) this.#startWorker(load);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof StartupError)) log.error("preparing the model failed", { error });
      this.#fail((error as Error).message);
    }
  }

  #startWorker(load: LoadOptions): void {
    if (this.#marks === undefined) this.#watchFiles(load);
    this.#client = new WorkerClient(this.#spawnWorker(), {
      load,
      timeoutMs: this.#timeoutMs,
      exitsAfterStop: this.#exitsAfterStop,
      listener: {
        onProgress: (progress) => this.#tell({ phase: "loading", progress }),
        onReady: (info) => this.#tell({ phase: "ready", info }),
        onFailed: (reason) => this.#fail(reason),
        onLost: (reason, cause) => this.#replaceWorker(load, { reason, cause }),
      },
    });
  }

  async #restart(load: LoadOptions): Promise<void> {
    await this.#checkFiles();
    if (!this.#retirement.signal.aborted && !this.#isChanged) this.#startWorker(load);
  }

  #watchFiles({ model, vadFolder, speakerEncoderFolder }: LoadOptions): void {
    const folders = [model.folder, vadFolder, speakerEncoderFolder]
      .filter((folder) => folder !== undefined);
    this.#marks = ModelMarks.take(folders);
    this.#filesTimer = setInterval(() => void this.#checkFiles(), this.#filesCheckMs);
  }

  /** Refuses new requests if a file of the model has changed. Requests that the worker already has continue. */
  async #checkFiles(): Promise<void> {
    const path = await (await this.#marks)?.findChanged();
    if (path === undefined || this.#isChanged) return;
    log.error("the model's files have changed: further requests are refused", { path });
    this.#tell({
      phase: "failed",
      reason: `The model's files have changed since it was loaded (${basename(path)}): ` +
        "restart the server to serve what is there now.",
      isChanged: true,
    });
    this.#isChanged = true;
    clearInterval(this.#filesTimer);
  }

  #fail(reason: string): void {
    log.error("the model could not be loaded", { reason });
    this.#tell({ phase: "failed", reason });
  }

  #replaceWorker(
    load: LoadOptions,
    { reason, cause }: { readonly reason: string; readonly cause: LossCause },
  ): void {
    this.#numLosses++;
    if (cause === "silent") this.#numSilent++;
    const isRetired = this.#retirement.signal.aborted;
    const waitMs = isRetired || this.#isChanged
      ? undefined
      : this.#restarts.recordLoss(performance.now());
    if (waitMs === undefined) {
      this.#tell({
        phase: "failed",
        reason: `the worker was lost too often, most recently: ${reason}`,
      });
    } else {
      this.#tell({ phase: "loading", progress: { what: `starting again after: ${reason}` } });
      // Two workers at the same time would hold the model in memory twice.
      const ended = this.#client!.ended;
      this.#restartTimer = setTimeout(() => void ended.then(() => this.#restart(load)), waitMs);
    }
    const numRequests = this.#listener.onLost(reason);
    const will = waitMs === undefined ? "will not be replaced" : "will be replaced";
    log.error(`the worker is lost and ${will}`, { reason, waitMs, numRequests });
  }

  #tell(state: Exclude<SessionState, { phase: "stopping" }>): void {
    if (!this.#retirement.signal.aborted && !this.#isChanged) this.#listener.onState(state);
  }
}

export type SessionState =
  | { readonly phase: "loading"; readonly progress?: LoadProgress | undefined }
  | { readonly phase: "ready"; readonly info: ModelInfo }
  /** Loading failed, or the worker was lost too often. */
  | { readonly phase: "failed"; readonly reason: string }
  /** The model's files were changed after it was loaded. The reason may be shown to any caller. */
  | { readonly phase: "failed"; readonly reason: string; readonly isChanged: true }
  | { readonly phase: "stopping" };

/** Makes the error for requests that are refused or ended because no model is ready. */
export function notReadyError(state: Exclude<SessionState, { phase: "ready" }>): HearthError {
  const kind = state.phase === "stopping" ? "shutting_down" : "model_not_loaded";
  return new HearthError(kind, explain(state));
}

function explain(state: Exclude<SessionState, { phase: "ready" }>): string {
  switch (state.phase) {
    case "stopping":
      return "shutting down";
    case "failed":
      if ("isChanged" in state) return state.reason;
      return `The model is not initialized: ${state.reason}`;
    case "loading": {
      if (state.progress === undefined) return "The model is not initialized yet.";
      const { what, fraction } = state.progress;
      return `loading: ${what}${fraction === undefined ? "" : ` ${Math.floor(fraction * 100)}%`}`;
    }
  }
}

const WINDOW_MS = 5 * 60_000;
const MAX_LOSSES_IN_WINDOW = 5;
const FIRST_WAIT_MS = 500;

/**
 * Decides how long to wait before a lost worker is replaced. Losses within five minutes count together: after the first
 * one there is no wait, after the second one half a second, and each further wait is twice as long. The sixth loss is
 * final, because the fault will not go away by itself.
 */
export class RestartPolicy {
  readonly #lossesMs: number[] = [];

  /**
   * Records a loss at `nowMs`.
   *
   * @returns milliseconds to wait before the next worker is started, or `undefined` to give up.
   */
  recordLoss(nowMs: number): number | undefined {
    while (this.#lossesMs.length > 0 && nowMs - this.#lossesMs[0]! >= WINDOW_MS) {
      this.#lossesMs.shift();
    }
    const earlier = this.#lossesMs.length;
    this.#lossesMs.push(nowMs);
    if (earlier >= MAX_LOSSES_IN_WINDOW) return undefined;
    return earlier === 0 ? 0 : FIRST_WAIT_MS * 2 ** (earlier - 1);
  }
}
