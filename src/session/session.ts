/**
 * The one loaded model as the server sees it: its state, who is admitted to it, and what happens when the
 * worker that runs it is lost.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { AdmissionSettings } from "../config.ts";
import { HearthError, StartupError } from "../errors.ts";
import { log } from "../log.ts";
import type { LoadProgress } from "../models/progress.ts";
import type { EventOf, Task, TaskEvent } from "../models/task.ts";
import type { LoadOptions, ModelInfo } from "../worker/protocol.ts";
import { WorkerClient } from "./client.ts";
import { RestartPolicy } from "./restart_policy.ts";
import { explainNotReady, type SessionState } from "./session_state.ts";
import { lastEvent, TaskStream } from "./task_stream.ts";

const METRICS_TIMEOUT_MS = 1_000;
const STOP_TIMEOUT_MS = 500;

/** What is known of a model's loading before there is a worker. */
export interface PrepareOptions {
  readonly onProgress: (progress: LoadProgress) => void;
  /** Aborted when the session stops. */
  readonly signal: AbortSignal;
}

/**
 * Finds out what the worker is to load, and downloads it if need be.
 *
 * @throws {StartupError} when it cannot be had.
 */
export type Prepare = (options: PrepareOptions) => Promise<LoadOptions>;

/** What a session is made of. */
export interface SessionOptions extends AdmissionSettings {
  readonly load: LoadOptions | Prepare;
  /** Starts the thread that owns the device. */
  readonly spawnWorker?: () => Worker;
  /** Whether the process ends right after `stop()`, and the thread with it. */
  readonly exitsAfterStop?: boolean;
}

/** How a request may be ended early. */
export interface RequestOptions {
  readonly signal?: AbortSignal;
}

/** What a session does with the stream of any task. */
type OpenStream = Pick<TaskStream<TaskEvent>, "fail">;

function spawnModelWorker(): Worker {
  return new Worker(new URL("../worker/worker.ts", import.meta.url), { type: "module" });
}

/** Owns the worker and every open request. */
export class Session {
  readonly #load: LoadOptions | Prepare;
  readonly #stopping = new AbortController();
  readonly #maxQueue: number;
  readonly #spawnWorker: () => Worker;
  readonly #exitsAfterStop: boolean;
  readonly #listeners = new Set<(state: SessionState) => void>();
  readonly #streams = new Set<OpenStream>();
  readonly #restarts = new RestartPolicy();
  #state: SessionState = { phase: "loading" };
  #client: WorkerClient | undefined;
  #restartTimer: ReturnType<typeof setTimeout> | undefined;
  #numLosses = 0;
  #isStarted = false;

  constructor(options: SessionOptions) {
    this.#load = options.load;
    this.#maxQueue = options.maxQueue;
    this.#spawnWorker = options.spawnWorker ?? spawnModelWorker;
    this.#exitsAfterStop = options.exitsAfterStop ?? false;
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

  /** Starts the loading of the model, and the worker for it. */
  start(): void {
    if (this.#isStarted || this.#state.phase !== "loading") return;
    this.#isStarted = true;
    if (typeof this.#load === "function") this.#prepare(this.#load);
    else this.#startWorker(this.#load);
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
   * The model, if it is ready and would take a request now: asked before the request is read, so that what is refused
   * takes no memory.
   *
   * @throws {HearthError} `model_not_loaded`; `overloaded` when the queue is full.
   */
  requireRoom(): ModelInfo {
    const info = this.requireReady();
    if (this.#streams.size < this.capacity) return info;
    throw new HearthError(
      "overloaded",
      `${this.#streams.size} requests are in work or waiting, as many as this server admits (--max-queue ${this.#maxQueue}). Try again later.`,
    );
  }

  /**
   * Hands a task to the worker, and its media's memory with it. Aborting `signal`, or leaving the iteration early,
   * drops it there before its next step, also while it waits. A `done` or `error` event is always the last.
   *
   * @throws {HearthError} `model_not_loaded`; `overloaded` when the queue is full.
   */
  stream<T extends Task>(task: T, { signal }: RequestOptions = {}): TaskStream<EventOf<T>> {
    this.requireRoom();
    const { port1, port2 } = new MessageChannel();
    this.#client!.request(task, port2);
    let hasEnded = false;
    const stream = new TaskStream<EventOf<T>>(port1, {
      signal,
      onEnd: (ended) => {
        hasEnded = true;
        this.#streams.delete(ended);
      },
    });
    if (!hasEnded) this.#streams.add(stream);
    return stream;
  }

  /**
   * Like {@linkcode stream}, for a task whose answer comes in one piece.
   *
   * @throws {HearthError} also what the worker finds wrong with the task.
   */
  async answer<T extends Task>(
    task: T,
    options: RequestOptions = {},
  ): Promise<Extract<EventOf<T>, { type: "done" }>> {
    return await lastEvent(this.stream(task, options));
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
    this.#stopping.abort();
  }

  /** Ends every request in flight with an error event, then the worker. */
  async stop(): Promise<void> {
    this.drain();
    this.#failStreams(explainNotReady({ phase: "stopping" }));
    await this.#client?.stop(STOP_TIMEOUT_MS);
  }

  async #prepare(prepare: Prepare): Promise<void> {
    const { signal } = this.#stopping;
    const onProgress = (progress: LoadProgress) => this.#advance({ phase: "loading", progress });
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
    this.#client = new WorkerClient(this.#spawnWorker(), load, {
      onProgress: (progress) => this.#advance({ phase: "loading", progress }),
      onReady: (info) => this.#advance({ phase: "ready", info }),
      onFailed: (reason) => this.#fail(reason),
      onLost: (reason) => this.#replaceWorker(load, reason),
      exitsAfterStop: this.#exitsAfterStop,
    });
  }

  #fail(reason: string): void {
    log.error("the model could not be loaded", { reason });
    this.#advance({ phase: "failed", reason });
  }

  #replaceWorker(load: LoadOptions, reason: string): void {
    this.#numLosses++;
    const isStopping = this.#state.phase === "stopping";
    const waitMs = isStopping ? undefined : this.#restarts.recordLoss(performance.now());
    if (waitMs === undefined) {
      log.error("the worker is lost and will not be replaced", { reason });
      this.#advance({ phase: "failed", reason: `lost again and again, at last because ${reason}` });
    } else {
      log.error("the worker is lost and will be replaced", { reason, waitMs });
      this.#advance({ phase: "loading", progress: { what: `starting again after: ${reason}` } });
      this.#restartTimer = setTimeout(() => this.#startWorker(load), waitMs);
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
