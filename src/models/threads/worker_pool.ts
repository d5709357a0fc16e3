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
  /** Starts a worker, when a request comes and all are busy. */
  readonly start: () => Promise<WorkerRpc<Functions>> | WorkerRpc<Functions>;
  /** A worker that is already running; the pool owns it. */
  readonly first?: WorkerRpc<Functions>;
  /** Requests of more work take at most half of the workers. */
  readonly maxSmall?: number;
  /** How long a worker waits for a request before it is ended, unless it is one of those kept; 20 s if absent. */
  readonly idleMs?: number;
  /** How many workers are kept though they are idle; 1 if absent. */
  readonly numKept?: number;
}

/** An idle thread holds some 10 MiB, and starts in tens of milliseconds. */
const IDLE_MS = 20_000;

/** The least work first, then the oldest; a worker that dies or fails is replaced at the next request. */
export class WorkerPool<Functions extends WorkerFunctions> {
  readonly #options: WorkerPoolOptions<Functions>;
  readonly #semaphore: Semaphore;
  readonly #workers: (WorkerRpc<Functions> | undefined)[];
  /** When each worker is ended, by permit. */
  readonly #idle = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(options: WorkerPoolOptions<Functions>) {
    const { size, first, maxSmall = Infinity } = options;
    this.#options = options;
    this.#semaphore = new Semaphore(size, { maxSmall });
    // The semaphore gives its highest free permit first.
    this.#workers = new Array(size).fill(undefined);
    this.#workers[size - 1] = first;
  }

  get numWorkers(): number {
    return this.#workers.filter((worker) => worker !== undefined).length;
  }

  /**
   * Calls a function in a free worker.
   *
   * @throws {HearthError} when the function refuses its input.
   * @throws {Error} when it fails or dies.
   * @throws the signal's reason; work that has begun is finished first, since Deno 2.9 never frees the memory of a
   * worker that is terminated while it computes.
   */
  async call<Name extends keyof Functions & string>(
    name: Name,
    input: InputOf<Functions, Name>,
    { signal, transfer, work }: {
      /** Removes the request from the queue. */
      readonly signal: AbortSignal;
      /** Memory transferred to the worker. */
      readonly transfer?: Transferable[];
      /** Amount of work, in any unit: small requests overtake waiting large ones. */
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
      // What nobody wants any more came after the request's own garbage was looked for.
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
