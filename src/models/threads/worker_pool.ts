/**
 * A pool of worker threads, each handling one request at a time.
 *
 * @module
 */
import { collectGarbageLater } from "../../base/collect_garbage.ts";
import { HearthError } from "../../base/errors.ts";
import { Semaphore } from "./semaphore.ts";
import type { InputOf, OutputOf, WorkerFunctions, WorkerRpc } from "./worker_rpc.ts";

interface WorkerPoolOptions<Functions extends WorkerFunctions> {
  /** Most workers. */
  readonly size: number;
  /** Starts a worker; called when a request comes and all workers are busy. */
  readonly start: () => Promise<WorkerRpc<Functions>> | WorkerRpc<Functions>;
  /** A worker that is already running; the pool takes ownership. */
  readonly first?: WorkerRpc<Functions>;
  /** Requests with more work take at most half of the workers. */
  readonly maxSmall?: number;
  /** How long an idle worker is kept, unless it is one of `numKept`; 20 s if absent. */
  readonly idleMs?: number;
  /** Number of workers that are kept however long they are idle; 1 if absent. */
  readonly numKept?: number;
}

/** An idle thread takes some 10 MiB, and a new one starts in tens of milliseconds. */
const IDLE_MS = 20_000;

/**
 * Requests with the least work go first, the oldest among equals. A worker that dies or fails is replaced at the next
 * request.
 */
export class WorkerPool<Functions extends WorkerFunctions> {
  readonly #options: WorkerPoolOptions<Functions>;
  readonly #semaphore: Semaphore;
  readonly #workers: (WorkerRpc<Functions> | undefined)[];
  /** Timers that end idle workers, by permit. */
  readonly #idle = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(options: WorkerPoolOptions<Functions>) {
    const { size, first, maxSmall = Infinity } = options;
    this.#options = options;
    this.#semaphore = new Semaphore(size, { maxSmall });
    // The semaphore gives the highest free permit first.
    this.#workers = new Array(size).fill(undefined);
    this.#workers[size - 1] = first;
  }

  get numWorkers(): number {
    return this.#workers.filter((worker) => worker !== undefined).length;
  }

  /**
   * Calls a function on a free worker.
   *
   * @throws {HearthError} when the function refuses its input.
   * @throws {Error} when it fails or the worker dies.
   * @throws the signal's reason. Work that has begun is finished first, since Deno 2.9 never frees the memory of a
   * worker that is terminated while it computes.
   */
  async call<Name extends keyof Functions & string>(
    name: Name,
    input: InputOf<Functions, Name>,
    { signal, transfer, work }: {
      /** Aborting it removes the request from the queue. */
      readonly signal: AbortSignal;
      /** Memory transferred to the worker. */
      readonly transfer?: Transferable[];
      /** Amount of work in any unit: small requests overtake waiting large ones. */
      readonly work?: number | undefined;
    },
  ): Promise<OutputOf<Functions, Name>> {
    const permit = await this.#semaphore.acquire(signal, { work });
    clearTimeout(this.#idle.get(permit));
    try {
      const worker = this.#workers[permit] ??= await this.#options.start();
      signal.throwIfAborted();
      const output = await worker.call(name, input, transfer).catch((error: unknown) => {
        if (!(error instanceof HearthError)) this.#end(permit);
        throw error;
      });
      // The unwanted result came too late for the garbage collection that follows a cancelled request.
      if (signal.aborted) collectGarbageLater(() => this.#semaphore.numAcquired === 0);
      signal.throwIfAborted();
      return output;
    } finally {
      this.#endWhenIdle(permit);
      this.#semaphore.release(permit);
    }
  }

  /** Ends the workers; pending requests fail. */
  close(): void {
    for (const permit of this.#workers.keys()) this.#end(permit);
  }

  #endWhenIdle(permit: number): void {
    const timer = setTimeout(() => {
      if (this.numWorkers > (this.#options.numKept ?? 1)) this.#end(permit);
    }, this.#options.idleMs ?? IDLE_MS);
    timer.unref();
    this.#idle.set(permit, timer);
  }

  #end(permit: number): void {
    clearTimeout(this.#idle.get(permit));
    this.#workers[permit]?.end();
    this.#workers[permit] = undefined;
  }
}
