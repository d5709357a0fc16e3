/**
 * The server's end of the connection to one worker.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { LoadProgress } from "../../models/folder/open_context.ts";
import { makeStepMemory } from "../../base/running_steps.ts";
import { serveThreads } from "../../base/start_thread.ts";
import { listMedia, type Task } from "../../models/task.ts";
import type { FromWorker, LoadOptions, ModelInfo, ToWorker } from "../../worker/protocol.ts";
import { Heartbeat } from "./heartbeat.ts";

/** Why a worker is lost: it said so or died, or it answers no more. */
export type LossCause = "lost" | "silent";

/** What a worker reports about itself. Nothing follows `onFailed` or `onLost`. */
interface WorkerListener {
  onProgress(progress: LoadProgress): void;
  onReady(info: ModelInfo): void;
  /** The model cannot be loaded. */
  onFailed(reason: string): void;
  /** The device was lost, the worker died, or it answers no more. */
  onLost(reason: string, cause: LossCause): void;
}

/** Longest wait for a worker to free its resources after its device was lost. */
const RELEASE_TIMEOUT_MS = 1_000;

/** Talks to one worker from its start to its end. */
export class WorkerClient {
  readonly #worker: Worker;
  readonly #listener: WorkerListener;
  /** Where the worker asks for threads that help it. */
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

  /** Owns `worker` from here on and loads the model at once. */
  constructor(worker: Worker, { load, listener, timeoutMs, exitsAfterStop }: {
    readonly load: LoadOptions;
    readonly listener: WorkerListener;
    /** How long it may answer nothing between steps. */
    readonly timeoutMs: number;
    /** Whether the process ends right after `stop()`, and the thread with it. */
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

  /** Seconds since the worker last gave a sign of life; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    return this.#isOver ? 0 : this.#heart.silentSeconds;
  }

  /** Hands a request over; its events arrive on the other end of `port`, which goes to the worker. */
  request(task: Task, port: MessagePort): void {
    const message = { type: "request", task, port } satisfies ToWorker;
    this.#worker.postMessage(message, [port, ...listMedia(task)]);
  }

  /**
   * The worker's metrics; those it reported last (none if never) when it does not answer in time. A thread that runs a
   * model on the CPU answers no messages meanwhile, and counters must not vanish then.
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

  /** Asks the worker to free what it holds, and terminates it when it has, or after a timeout. */
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
   * Not where the process is about to end: a process that exits while a thread that used the GPU is being terminated
   * crashes in the graphics driver, and there is no way to know when termination is over. An idle thread is harmless.
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

  /** Terminating a thread leaks its native memory, so it is asked to free that first. */
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

  /** Nothing is reported from now on. */
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
