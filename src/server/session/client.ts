/**
 * The server's end of the connection to one worker. It notices when the worker no longer responds.
 *
 * @module
 */
import type { MetricObject } from "prom-client";
import type { LoadProgress } from "../../models/model.ts";
import { makeStepMemory, readSteps, serveThreads } from "../../base/threads.ts";
import { within } from "../../base/timing.ts";
import { listMedia, type Task } from "../../models/task.ts";
import type { FromWorker, LoadOptions, ModelInfo, ToWorker } from "../../worker/protocol.ts";

/** The reason why a worker is lost: it failed or died (`lost`), or it no longer responds (`silent`). */
export type LossCause = "lost" | "silent";

/** Receives what a worker reports about itself. Nothing follows `onFailed` or `onLost`. */
interface WorkerListener {
  onProgress(progress: LoadProgress): void;
  onReady(info: ModelInfo): void;
  /** Called when the model cannot be loaded. */
  onFailed(reason: string): void;
  /** Called when the device was lost, or the worker died or no longer responds. */
  onLost(reason: string, cause: LossCause): void;
}

/** How long to wait until a lost worker has freed its resources. */
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

  /** Sends a request to the worker, and transfers `port`. The request's events arrive at the port's other end. */
  request(task: Task, port: MessagePort): void {
    const message = { type: "request", task, port } satisfies ToWorker;
    this.#worker.postMessage(message, [port, ...listMedia(task)]);
  }

  /**
   * Returns the worker's metrics. If it does not answer in time, returns those that it reported last, or none: a worker
   * that runs a step on the CPU cannot answer, but its counters must not vanish meanwhile.
   */
  async metrics(timeoutMs: number): Promise<MetricObject[]> {
    const id = ++this.#lastMetricsId;
    const answer = Promise.withResolvers<void>();
    this.#metricsWaiting.set(id, answer.resolve);
    this.#send({ type: "metrics", id });
    await within(answer.promise, timeoutMs);
    this.#metricsWaiting.delete(id);
    return this.#metrics;
  }

  /**
   * Asks the worker to free its resources, and terminates its thread when it has done so, or after a timeout. If the
   * process exits after this, the thread is not terminated.
   */
  async stop(timeoutMs: number): Promise<void> {
    this.#isStopping = true;
    if (this.#isOver) return;
    this.#end();
    await this.#askToStop(timeoutMs);
    this.#endThread();
  }

  /** Resolves when the worker's thread has been terminated. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  async #askToStop(timeoutMs: number): Promise<void> {
    this.#send({ type: "stop" });
    await within(this.#stopped.promise, timeoutMs);
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

  /**
   * Reports that the worker is lost, and ends it. It is first asked to free its native memory, which terminating its
   * thread alone would leak.
   */
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

  /** Stops the heartbeat, and all reports to the listener. */
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

/** Number of beats within the silence that is allowed between steps. */
const BEATS = 6;

/** A step of the model, or a stage of its loading, may take this many times the allowed silence between steps. */
export const STEP_FACTOR = 20;

interface HeartbeatOptions {
  /** How long the worker may be silent while it neither loads nor runs a step. */
  readonly timeoutMs: number;
  /** Counters of the worker's steps; see `readSteps`. */
  readonly steps: SharedArrayBuffer;
}

/**
 * Decides whether a worker that is pinged at every beat still responds. Silence is counted in beats, not by the clock,
 * so that a worker does not count as hanging because the machine slept or the server's thread was busy. A worker that
 * computes on the CPU cannot answer pings during a step. So while a step runs, only the counters of steps are watched.
 */
export class Heartbeat {
  /** Time between two beats. */
  readonly beatMs: number;
  readonly #timeoutMs: number;
  readonly #steps: SharedArrayBuffer;
  #isLoading = true;
  /** Pings since the worker last responded. */
  #silentBeats = 0;
  /** Beats during steps since the counters of steps last changed. */
  #stepBeats = 0;
  #lastChanges = 0;

  /** Assumes that the worker is loading until {@linkcode loaded} is called. */
  constructor({ timeoutMs, steps }: HeartbeatOptions) {
    this.#timeoutMs = timeoutMs;
    this.#steps = steps;
    this.beatMs = timeoutMs / BEATS;
  }

  /** Seconds since the worker last responded, rounded to beats; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    if (this.#isLoading || readSteps(this.#steps).running > 0) return 0;
    return Math.max(0, this.#silentBeats - 1) * this.beatMs / 1000;
  }

  /** Called when the worker has sent anything. */
  heard(): void {
    this.#silentBeats = 0;
  }

  /** Called when the model is ready. */
  loaded(): void {
    this.#isLoading = false;
  }

  /** Called at every beat. @returns why the worker is lost, or `undefined` if it may still respond. */
  beat(): string | undefined {
    const { running, changes } = readSteps(this.#steps);
    if (changes !== this.#lastChanges) {
      this.#lastChanges = changes;
      this.#silentBeats = 0;
      this.#stepBeats = 0;
    }
    const isStepping = running > 0;
    if (isStepping && this.#stepBeats++ >= BEATS * STEP_FACTOR) {
      return this.#explain("a step of the model did not end");
    }
    const allowed = this.#isLoading ? BEATS * STEP_FACTOR : BEATS;
    if (!isStepping && this.#silentBeats++ >= allowed) {
      return this.#explain(
        `its thread ${this.#isLoading ? "was silent while it loaded the model" : "did not answer"}`,
      );
    }
    return undefined;
  }

  #explain(reason: string): string {
    return `${reason} (--worker-timeout ${this.#timeoutMs / 1000})`;
  }
}
