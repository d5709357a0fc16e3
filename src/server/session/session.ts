/**
 * The loaded model as the server sees it: its state, and the admission of requests.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { AdmissionSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import type { EventOf, Task, TaskEvent } from "../../models/task.ts";
import type { ModelInfo } from "../../worker/protocol.ts";
import {
  notReadyError,
  type SessionState,
  type SupervisorOptions,
  WorkerSupervisor,
} from "./supervisor.ts";
import { recordWork, TaskStream, waitForDone } from "./task_stream.ts";

interface SessionOptions extends AdmissionSettings, SupervisorOptions {}

interface RequestOptions {
  readonly signal?: AbortSignal;
}

/** The part of a task stream that a session needs. */
type OpenStream = Pick<TaskStream<TaskEvent>, "fail">;

/** Owns the worker, through its supervisor, and all open requests. */
export class Session {
  readonly #supervisor: WorkerSupervisor;
  readonly #maxQueue: number;
  readonly #listeners = new Set<(state: SessionState) => void>();
  readonly #streams = new Set<OpenStream>();
  #state: SessionState = { phase: "loading" };
  #isStarted = false;

  constructor(options: SessionOptions) {
    this.#maxQueue = options.maxQueue;
    this.#supervisor = new WorkerSupervisor(options, {
      onState: (state) => this.#setState(state),
      onLost: (reason) =>
        this.#failStreams(
          new HearthError(
            "model_not_loaded",
            `The model was lost while working on this request: ${reason}. Try again.`,
          ),
        ),
    });
  }

  get state(): SessionState {
    return this.#state;
  }

  /** Requests admitted and not yet finished. */
  get numInFlight(): number {
    return this.#streams.size;
  }

  /** Requests admitted beyond the number that the model works on at once; 0 while no model is ready. */
  get numWaiting(): number {
    if (this.#state.phase !== "ready") return 0;
    return Math.max(0, this.numInFlight - this.#state.info.maxSequences);
  }

  /** Requests that may be admitted at the same time; 0 while no model is ready. */
  get capacity(): number {
    return this.#state.phase === "ready" ? this.#state.info.maxSequences + this.#maxQueue : 0;
  }

  /** Workers lost since the start. */
  get numLosses(): number {
    return this.#supervisor.numLosses;
  }

  /** Workers lost since the start because they no longer responded. */
  get numSilent(): number {
    return this.#supervisor.numSilent;
  }

  /** Seconds since the worker last responded; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    return this.#supervisor.silentSeconds;
  }

  /** Starts the worker, which loads the model. */
  start(): void {
    if (this.#isStarted || this.#state.phase !== "loading") return;
    this.#isStarted = true;
    this.#supervisor.start();
  }

  /** Calls `listener` on every change of state. The returned function unsubscribes it. */
  onStateChange(listener: (state: SessionState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Waits until the model is ready.
   *
   * @throws {HearthError} `model_not_loaded` when loading fails, `shutting_down` when the session stops first.
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

  /**
   * Returns the model if it is ready.
   *
   * @throws {HearthError} `model_not_loaded` or `shutting_down`, saying why it is not.
   */
  requireReady(): ModelInfo {
    if (this.#state.phase === "ready") return this.#state.info;
    throw notReadyError(this.#state);
  }

  /**
   * Returns the model if it is ready and a request would be admitted now. Call it before reading a request's body, so
   * that a refused request takes no memory.
   *
   * @throws {HearthError} `model_not_loaded`, `shutting_down`; `overloaded` when the queue is full.
   */
  requireRoom(): ModelInfo {
    const info = this.requireReady();
    if (this.#streams.size < this.capacity) return info;
    throw new HearthError(
      "overloaded",
      `${this.#streams.size} requests are running or waiting, the most that this server admits ` +
        `(--max-queue ${this.#maxQueue}). Try again later.`,
    );
  }

  /**
   * Sends a task to the worker, and transfers its media. Aborting `signal`, or ending the iteration early, cancels the
   * task: while it is queued, or before its next step. If it is not cancelled, its last event is `done` or `error`.
   *
   * @throws {HearthError} `model_not_loaded`, `shutting_down`; `overloaded` when the queue is full.
   */
  stream<T extends Task>(task: T, { signal }: RequestOptions = {}): TaskStream<EventOf<T>> {
    this.requireRoom();
    const startedAtMs = performance.now();
    const { port1, port2 } = new MessageChannel();
    this.#supervisor.request(task, port2);
    let hasEnded = false;
    const stream = new TaskStream<EventOf<T>>(port1, {
      signal,
      onEnd: (ended, last) => {
        hasEnded = true;
        if (signal !== undefined) recordWork(signal, { startedAtMs, last });
        this.#streams.delete(ended);
      },
    });
    if (!hasEnded) this.#streams.add(stream);
    return stream;
  }

  /**
   * Runs a task that has a single answer.
   *
   * @throws {HearthError} as {@linkcode stream} does, and the worker's error for the task.
   */
  async answer<T extends Task>(
    task: T,
    options: RequestOptions = {},
  ): Promise<Extract<EventOf<T>, { type: "done" }>> {
    return await waitForDone(this.stream(task, options));
  }

  /** Returns the worker's metrics, or those that it reported last if it does not answer in time; none without a model. */
  async metrics(): Promise<MetricObject[]> {
    return this.#state.phase === "ready" ? await this.#supervisor.metrics() : [];
  }

  /** Refuses new requests from now on. Requests in progress continue. */
  drain(): void {
    this.#setState({ phase: "stopping" });
    this.#supervisor.retire();
  }

  /** Ends every request in progress with an error event, then stops the worker. */
  async stop(): Promise<void> {
    this.drain();
    this.#failStreams(notReadyError({ phase: "stopping" }));
    await this.#supervisor.stop();
  }

  /** Ends all requests in progress with an error, because the worker will not finish them. @returns their number. */
  #failStreams(error: HearthError): number {
    const streams = [...this.#streams];
    for (const stream of streams) stream.fail(error.toWire());
    return streams.length;
  }

  #setState(next: SessionState): void {
    this.#state = next;
    for (const listener of [...this.#listeners]) listener(next);
  }
}
