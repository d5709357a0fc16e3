/**
 * The server's end of the connection to one worker.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { LoadProgress } from "../../models/model.ts";
import { makeStepMemory } from "../../base/running_steps.ts";
import { serveThreads } from "../../base/start_thread.ts";
import { listMedia, type Task } from "../../models/task.ts";
import type { FromWorker, LoadOptions, ModelInfo, ToWorker } from "../../worker/protocol.ts";
import { Heartbeat } from "./heartbeat.ts";

/** Why a worker is lost: it failed or died (`lost`), or it no longer responds (`silent`). */
export type LossCause = "lost" | "silent";

/** Receives what a worker reports about itself. Nothing follows `onFailed` or `onLost`. */
interface WorkerListener {
  onProgress(progress: LoadProgress): void;
  onReady(info: ModelInfo): void;
  /** Called when the model cannot be loaded. */
  onFailed(reason: string): void;
  /** Called when the device was lost, the worker died, or it no longer responds. */
  onLost(reason: string, cause: LossCause): void;
}

/** Longest wait for a worker to free its resources after its device was lost. */
const RELEASE_TIMEOUT_MS = 1_000;

/** Talks to one worker from its start to its end. */
export class WorkerClient {
  readonly #worker: Worker;
  readonly #listener: WorkerListener;
  /** Port on which the worker asks for helper threads. */
  readonly #threads: MessagePort;
  readonly #heart: Heartbeat;
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #metricsWaiting = new Map<number, () => void>();
  #metrics: MetricObject[] = [];
  readonly #stopped = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #exitsAfterStop: boolean;
  #lastMetricsId = 0;
  #isOver = false;
  #isStopping = false;

  /** Takes ownership of `worker` and starts loading the model. */
  constructor(worker: Worker, { load, listener, timeoutMs, exitsAfterStop }: {
    readonly load: LoadOptions;
    readonly listener: WorkerListener;
    /** How long the worker may be silent between steps. */
    readonly timeoutMs: number;
    /** Whether the process exits right after `stop()`, which ends the thread as well. */
    readonly exitsAfterStop: boolean;
  }) {
    this.#worker = worker;
    this.#exitsAfterStop = exitsAfterStop;
    this.#listener = listener;
    worker.onmessage = (event: MessageEvent<FromWorker>) => this.#receive(event.data);
    worker.onmessageerror = () => this.#lose("a message from the worker could not be read");
    worker.onerror = (event) => {
      event.preventDefault();
      this.#stopped.resolve();
      this.#lose(`the worker died: ${event.message}`);
    };
    const { port1, port2 } = new MessageChannel();
    this.#threads = port1;
    serveThreads(port1);
    const steps = makeStepMemory();
    this.#heart = new Heartbeat({ timeoutMs, steps });
    this.#timer = setInterval(() => this.#beat(), this.#heart.beatMs);
    const message = { type: "load", options: load, threads: port2, steps } satisfies ToWorker;
    worker.postMessage(message, [port2]);
  }

  /** Seconds since the worker last responded; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    return this.#isOver ? 0 : this.#heart.silentSeconds;
  }

  /** Sends a request to the worker. `port` goes to the worker too; its events arrive at the port's other end. */
  request(task: Task, port: MessagePort): void {
    const message = { type: "request", task, port } satisfies ToWorker;
    this.#worker.postMessage(message, [port, ...listMedia(task)]);
  }

  /**
   * Returns the worker's metrics, or those it reported last (none if never) if it does not answer in time. A thread
   * that runs a model on the CPU cannot answer messages at that time, and its counters must not vanish then.
   */
  async metrics(timeoutMs: number): Promise<MetricObject[]> {
    const id = ++this.#lastMetricsId;
    const answer = Promise.withResolvers<void>();
    this.#metricsWaiting.set(id, answer.resolve);
    const timer = setTimeout(answer.resolve, timeoutMs);
    this.#send({ type: "metrics", id });
    await answer.promise;
    clearTimeout(timer);
    this.#metricsWaiting.delete(id);
    return this.#metrics;
  }

  /** Asks the worker to free its resources, and terminates it once it has, or after a timeout. */
  async stop(timeoutMs: number): Promise<void> {
    this.#isStopping = true;
    if (this.#isOver) return;
    this.#end();
    await this.#askToStop(timeoutMs);
    this.#endThread();
  }

  /** Resolves when the worker's thread has been ended. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  async #askToStop(timeoutMs: number): Promise<void> {
    this.#send({ type: "stop" });
    const timer = setTimeout(this.#stopped.resolve, timeoutMs);
    await this.#stopped.promise;
    clearTimeout(timer);
  }

  /**
   * Terminates the thread, unless the process is about to exit. A process that exits while a thread that used the GPU
   * is being terminated crashes in the graphics driver, and there is no way to know when termination is complete. An
   * idle thread is harmless.
   */
  #endThread(): void {
    if (!this.#exitsAfterStop) this.#terminate();
  }

  #terminate(): void {
    this.#worker.terminate();
    this.#threads.close();
    this.#ended.resolve();
  }

  #send(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  /** Reports the loss. The worker is first asked to free its native memory, because terminating its thread leaks it. */
  #lose(reason: string, cause: LossCause = "lost"): void {
    if (this.#isOver) return this.#stopped.resolve();
    this.#end();
    void this.#askToStop(RELEASE_TIMEOUT_MS)
      .then(() => this.#isStopping ? this.#endThread() : this.#terminate());
    this.#listener.onLost(reason, cause);
  }

  #beat(): void {
    const reason = this.#heart.beat();
    if (reason === undefined) this.#send({ type: "ping" });
    else this.#lose(reason, "silent");
  }

  /** Stops reporting. */
  #end(): void {
    this.#isOver = true;
    clearInterval(this.#timer);
  }

  #receive(message: FromWorker): void {
    this.#heart.heard();
    if (message.type === "stopped") this.#stopped.resolve();
    if (message.type === "metrics") {
      this.#metrics = message.metrics;
      this.#metricsWaiting.get(message.id)?.();
    }
    if (this.#isOver) return;
    switch (message.type) {
      case "progress":
        return this.#listener.onProgress(message.progress);
      case "ready":
        this.#heart.loaded();
        return this.#listener.onReady(message.info);
      case "failed":
        this.#end();
        this.#endThread();
        return this.#listener.onFailed(message.reason);
      case "lost":
        return this.#lose(message.reason);
    }
  }
}
