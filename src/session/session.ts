/**
 * The one loaded model as the server sees it: its state, who is admitted to it, and what happens when the
 * worker that runs it is lost.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { AdmissionSettings } from "../config.ts";
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import type { ChatTask, LoadOptions, LoadProgress, ModelInfo } from "../worker/protocol.ts";
import { ChatStream } from "./chat_stream.ts";
import { WorkerClient } from "./client.ts";
import { RestartPolicy } from "./restart_policy.ts";

const METRICS_TIMEOUT_MS = 1_000;
const STOP_TIMEOUT_MS = 500;

/** Where a session is. */
export type SessionState =
  | { readonly phase: "loading"; readonly progress?: LoadProgress | undefined }
  | { readonly phase: "ready"; readonly info: ModelInfo }
  /** Loading failed, or the worker was lost too often. */
  | { readonly phase: "failed"; readonly reason: string }
  | { readonly phase: "stopping" };

/** What a session is made of. */
export interface SessionOptions extends AdmissionSettings {
  readonly load: LoadOptions;
  /** Starts the thread that owns the device. */
  readonly spawnWorker?: () => Worker;
}

function spawnModelWorker(): Worker {
  return new Worker(new URL("../worker/worker.ts", import.meta.url), { type: "module" });
}

/** Owns the worker and every open request. */
export class Session {
  readonly #load: LoadOptions;
  readonly #maxQueue: number;
  readonly #spawnWorker: () => Worker;
  readonly #listeners = new Set<(state: SessionState) => void>();
  readonly #streams = new Set<ChatStream>();
  readonly #restarts = new RestartPolicy();
  #state: SessionState = { phase: "loading" };
  #client: WorkerClient | undefined;
  #restartTimer: ReturnType<typeof setTimeout> | undefined;
  #numLosses = 0;

  constructor(options: SessionOptions) {
    this.#load = options.load;
    this.#maxQueue = options.maxQueue;
    this.#spawnWorker = options.spawnWorker ?? spawnModelWorker;
  }

  get state(): SessionState {
    return this.#state;
  }

  /** Requests admitted and not yet at their end. */
  get numInFlight(): number {
    return this.#streams.size;
  }

  /** Requests that are admitted at once; 0 while no model is ready. */
  get capacity(): number {
    return this.#state.phase === "ready" ? this.#state.info.maxSequences + this.#maxQueue : 0;
  }

  /** Workers lost since the start. */
  get numLosses(): number {
    return this.#numLosses;
  }

  /** Starts the worker and the loading of the model. */
  start(): void {
    if (this.#client === undefined && this.#state.phase === "loading") this.#startWorker();
  }

  /** Calls `listener` with every later state; the function returned ends that. */
  onStateChange(listener: (state: SessionState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Waits until the model is ready.
   *
   * @throws {HearthError} `model_not_loaded` when loading fails or the session stops first.
   */
  async ready(): Promise<ModelInfo> {
    while (this.#state.phase === "loading") {
      const change = Promise.withResolvers<void>();
      const unsubscribe = this.onStateChange(() => change.resolve());
      await change.promise;
      unsubscribe();
    }
    return this.requireReady();
  }

  /** The model, if it is ready. @throws {HearthError} `model_not_loaded`, saying why it is not. */
  requireReady(): ModelInfo {
    if (this.#state.phase === "ready") return this.#state.info;
    throw new HearthError("model_not_loaded", explainNotReady(this.#state));
  }

  /**
   * Sends a chat request to the worker. Aborting `signal`, or leaving the iteration early, drops it there
   * before its next token, also while it waits. An error event is always the last.
   *
   * @throws {HearthError} `model_not_loaded`; `overloaded` when the queue is full.
   */
  chat(
    task: ChatTask,
    options: { signal?: AbortSignal } = {},
  ): ChatStream {
    this.requireReady();
    if (this.#streams.size >= this.capacity) {
      throw new HearthError(
        "overloaded",
        `${this.#streams.size} requests are in work or waiting, as many as this server admits (--max-queue ${this.#maxQueue}). Try again later.`,
      );
    }
    const { port1, port2 } = new MessageChannel();
    this.#client!.request(task, port2);
    let hasEnded = false;
    const stream = new ChatStream(port1, {
      signal: options.signal,
      onEnd: (ended) => {
        hasEnded = true;
        this.#streams.delete(ended);
      },
    });
    if (!hasEnded) this.#streams.add(stream);
    return stream;
  }

  /** The worker's metrics; none while there is no model or when the worker is stuck. */
  async metrics(): Promise<MetricObject[]> {
    if (this.#state.phase !== "ready" || this.#client === undefined) return [];
    const metrics = await this.#client.metrics(METRICS_TIMEOUT_MS);
    if (metrics === undefined) log.warn("the worker did not report its metrics in time");
    return metrics ?? [];
  }

  /** Refuses new requests from now on and lets those in flight go on. */
  drain(): void {
    clearTimeout(this.#restartTimer);
    this.#setState({ phase: "stopping" });
  }

  /** Ends every request in flight with an error event, then the worker. */
  async stop(): Promise<void> {
    this.drain();
    this.#failStreams(explainNotReady({ phase: "stopping" }));
    await this.#client?.stop(STOP_TIMEOUT_MS);
  }

  #startWorker(): void {
    this.#client = new WorkerClient(this.#spawnWorker(), this.#load, {
      onProgress: (progress) => this.#advance({ phase: "loading", progress }),
      onReady: (info) => this.#advance({ phase: "ready", info }),
      onFailed: (reason) => {
        log.error("the model could not be loaded", { reason });
        this.#advance({ phase: "failed", reason });
      },
      onLost: (reason) => this.#replaceWorker(reason),
    });
  }

  #replaceWorker(reason: string): void {
    this.#numLosses++;
    const isStopping = this.#state.phase === "stopping";
    const waitMs = isStopping ? undefined : this.#restarts.recordLoss(performance.now());
    if (waitMs === undefined) {
      log.error("the worker is lost and will not be replaced", { reason });
      this.#advance({ phase: "failed", reason: `lost again and again, at last because ${reason}` });
    } else {
      log.error("the worker is lost and will be replaced", { reason, waitMs });
      this.#advance({ phase: "loading", progress: { what: `starting again after: ${reason}` } });
      this.#restartTimer = setTimeout(() => this.#startWorker(), waitMs);
    }
    this.#failStreams(`The model was lost while it worked on this request: ${reason}. Try again.`);
  }

  /** Ends the requests in flight on behalf of a worker that cannot. */
  #failStreams(message: string): void {
    const error = new HearthError("model_not_loaded", message).toWire();
    for (const stream of [...this.#streams]) stream.fail(error);
  }

  /** A change of state told by the worker: none of them undoes stopping. */
  #advance(next: SessionState): void {
    if (this.#state.phase !== "stopping") this.#setState(next);
  }

  #setState(next: SessionState): void {
    this.#state = next;
    for (const listener of [...this.#listeners]) listener(next);
  }
}

/** Says why there is no model, as health and every refused request tell it. */
export function explainNotReady(state: Exclude<SessionState, { phase: "ready" }>): string {
  switch (state.phase) {
    case "stopping":
      return "shutting down";
    case "failed":
      return `The model is not initialized: ${state.reason}`;
    case "loading": {
      const { what, fraction } = state.progress ?? { what: "starting" };
      const share = fraction === undefined ? "" : ` (${Math.round(fraction * 100)} %)`;
      return `The model is not initialized yet: ${what}${share}. Try again in a few seconds.`;
    }
  }
}
