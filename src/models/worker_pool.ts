/**
 * Worker threads that many ask, each doing one thing after the other.
 *
 * @module
 */
import { HearthError, type WireError } from "../errors.ts";
import { Semaphore } from "./semaphore.ts";
import type { WorkerRpc } from "./worker_rpc.ts";

/** What a worker may answer whatever it is asked. */
export type WorkerFailure =
  /** It is the fault of what was asked. */
  | { readonly type: "refused"; readonly error: WireError }
  /** It is the worker's own. */
  | { readonly type: "failed"; readonly reason: string };

type Rpc<Request, Response> = WorkerRpc<Request, Response | WorkerFailure>;

/** What a pool is made of. */
export interface WorkerPoolOptions<Request, Response> {
  /** Most workers. */
  readonly size: number;
  /** Starts a worker, when the first request comes that none is there for. */
  readonly start: () => Promise<Rpc<Request, Response>> | Rpc<Request, Response>;
  /** One that has started already; it is the pool's from then on. */
  readonly first?: Rpc<Request, Response>;
  /** Requests of more work keep half of the workers at most. */
  readonly maxSmall?: number;
  /** Whether to end a worker whose request is aborted: for work that nothing else stops half-way. */
  readonly endsAborted?: boolean;
}

/** How to ask. */
export interface AskOptions {
  /** Takes the request out of the queue. One whose turn has come is answered, unless the pool `endsAborted`. */
  readonly signal: AbortSignal;
  /** Memory that goes to the worker and is not copied. */
  readonly transfer?: Transferable[];
  /** How much work it is, in any unit: small requests pass large ones that wait. */
  readonly work?: number | undefined;
}

/** The least work first, then who came first; a worker that dies or fails is replaced when the next request comes. */
export class WorkerPool<Request, Response> {
  readonly #options: WorkerPoolOptions<Request, Response>;
  readonly #semaphore: Semaphore;
  readonly #workers: (Rpc<Request, Response> | undefined)[];

  constructor(options: WorkerPoolOptions<Request, Response>) {
    const { size, first, maxSmall = Infinity } = options;
    this.#options = options;
    this.#semaphore = new Semaphore(size, { maxSmall });
    // A semaphore hands out its highest free permit first.
    this.#workers = new Array(size).fill(undefined);
    this.#workers[size - 1] = first;
  }

  /** Workers that are running. */
  get numWorkers(): number {
    return this.#workers.filter((worker) => worker !== undefined).length;
  }

  /**
   * @throws {HearthError} when the worker refuses the request.
   * @throws {Error} when it fails or dies of it.
   * @throws the signal's reason.
   */
  async ask(request: Request, { signal, transfer, work }: AskOptions): Promise<Response> {
    const { start, endsAborted = false } = this.#options;
    const permit = await this.#semaphore.acquire(signal, { size: work });
    const end = () => this.#end(permit);
    if (endsAborted) signal.addEventListener("abort", end, { once: true });
    try {
      const worker = this.#workers[permit] ??= await start();
      if (endsAborted) signal.throwIfAborted();
      return responseOf(await worker.ask(request, transfer));
    } catch (error) {
      if (endsAborted) signal.throwIfAborted();
      if (!(error instanceof HearthError)) end();
      throw error;
    } finally {
      signal.removeEventListener("abort", end);
      this.#semaphore.release(permit);
    }
  }

  /** Ends the workers; whoever waits for an answer gets an error. */
  close(): void {
    for (const permit of this.#workers.keys()) this.#end(permit);
  }

  #end(permit: number): void {
    this.#workers[permit]?.end();
    this.#workers[permit] = undefined;
  }
}

function responseOf<Response>(answer: Response | WorkerFailure): Response {
  const known = answer as WorkerFailure;
  if (known.type === "refused") throw HearthError.fromWire(known.error);
  if (known.type === "failed") throw new Error(known.reason);
  return answer as Response;
}
