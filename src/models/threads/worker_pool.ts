/**
 * Worker threads that serve functions: calling and serving them, and a pool of workers that each handle one call at a
 * time.
 *
 * @module
 */
import { collectGarbageLater, trimEndingThread } from "../../base/memory.ts";
import { HearthError, type WireError } from "../../base/errors.ts";
import { Semaphore } from "./semaphore.ts";
import { parentPort, workerData } from "node:worker_threads";
import { startThread } from "../../base/threads.ts";

interface WorkerPoolOptions<Functions extends WorkerFunctions> {
  /** Maximum number of workers. */
  readonly size: number;
  /** Starts a worker; called when all running workers are busy. */
  readonly start: () => Promise<WorkerRpc<Functions>> | WorkerRpc<Functions>;
  /** A worker that is already running, owned by the pool from now on. */
  readonly first?: WorkerRpc<Functions>;
  /** Calls with more work than this take at most half of the workers. */
  readonly maxSmall?: number;
  /** Time for which idle workers beyond `numKept` are kept; 20 s if absent. */
  readonly idleMs?: number;
  /** Number of workers that are kept even if they are idle; 1 if absent. */
  readonly numKept?: number;
}

/** Default idle time. An idle thread takes about 10 MiB, and a new one starts in tens of milliseconds. */
const IDLE_MS = 20_000;

/**
 * A pool of workers. Calls with the least work go first, and the oldest among equals. A worker that dies, or one of
 * whose functions fails, is replaced at the next call.
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
    // The semaphore gives out the highest permit first, so that one belongs to the first worker.
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
   * @throws {Error} when the function fails or the worker dies.
   * @throws the signal's reason. Work that has begun is finished first, as Deno 2.9 never frees the memory of a worker
   * that is terminated while it computes.
   */
  async call<Name extends keyof Functions & string>(
    name: Name,
    input: InputOf<Functions, Name>,
    { signal, transfer, work }: {
      /** Aborting it removes the call from the queue. */
      readonly signal: AbortSignal;
      /** Memory transferred to the worker. */
      readonly transfer?: Transferable[];
      /** Amount of work in any unit. Small calls overtake waiting large ones. */
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
      // The request was cancelled, and the garbage collection that followed came before this result arrived.
      if (signal.aborted) collectGarbageLater(() => this.#semaphore.numAcquired === 0);
      signal.throwIfAborted();
      return output;
    } finally {
      this.#endWhenIdle(permit);
      this.#semaphore.release(permit);
    }
  }

  /** Ends the workers. Pending calls fail. */
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

/** Functions that a worker serves. Each takes one input. Inputs and outputs are plain data. */
// deno-lint-ignore no-explicit-any -- a function of any input
type WorkerFunctions = Readonly<Record<string, (input: any) => unknown>>;

/** The data with which a worker is started. */
interface WorkerStart {
  readonly port: MessagePort;
}

/** A call, as sent to the worker. */
interface WorkerCall {
  readonly name: string;
  readonly input: unknown;
}

/** The outcome of a call, as sent back. */
type WorkerOutcome =
  | { readonly output: unknown }
  /** The function refused its input. */
  | { readonly refused: WireError }
  /** The function failed. */
  | { readonly failed: string };

type InputOf<Functions extends WorkerFunctions, Name extends keyof Functions> = Parameters<
  Functions[Name]
>[0];

export type OutputOf<Functions extends WorkerFunctions, Name extends keyof Functions> = Awaited<
  ReturnType<Functions[Name]>
>;

/** Period of the timer that keeps the process alive during a call. */
const KEEP_ALIVE_MS = 60_000;

/** Calls a worker, one function at a time. */
export class WorkerRpc<Functions extends WorkerFunctions> {
  readonly #port: MessagePort;
  readonly #name: string;
  /** Outcome of the current call. It is not kept after the call, as it may take hundreds of megabytes. */
  #outcome: PromiseWithResolvers<WorkerOutcome> | undefined;
  #failure: Error | undefined;

  /**
   * Starts the worker. If that fails, the first call reports it.
   *
   * @param module URL of the worker's file, which calls {@linkcode serveFunctions}.
   * @param name name of the worker in error messages.
   */
  constructor(module: URL, name: string) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#name = name;
    port1.onmessage = ({ data }: MessageEvent<WorkerOutcome>) => this.#outcome?.resolve(data);
    startThread(module, {
      workerData: { port: port2 } satisfies WorkerStart,
      ports: [port2],
      onEnd: (failure = "it ended by itself") => this.#fail(`The ${name} died: ${failure}`),
    });
  }

  /**
   * Calls a function. Only one call may be in progress.
   *
   * @param transfer memory of the input that is transferred to the worker.
   * @throws {HearthError} when the function refuses its input.
   * @throws {Error} when the function fails or the worker dies.
   */
  async call<Name extends keyof Functions & string>(
    name: Name,
    input: InputOf<Functions, Name>,
    transfer: Transferable[] = [],
  ): Promise<OutputOf<Functions, Name>> {
    if (this.#failure !== undefined) throw this.#failure;
    const outcome = await this.#send({ name, input }, transfer);
    if ("refused" in outcome) throw HearthError.fromWire(outcome.refused);
    if ("failed" in outcome) throw new Error(outcome.failed);
    return outcome.output as OutputOf<Functions, Name>;
  }

  async #send(call: WorkerCall, transfer: Transferable[]): Promise<WorkerOutcome> {
    this.#outcome = Promise.withResolvers();
    // A dying worker closes the port before its reason arrives. The port may be all that keeps the process alive.
    const alive = setInterval(() => {}, KEEP_ALIVE_MS);
    try {
      this.#port.postMessage(call, transfer);
      return await this.#outcome.promise;
    } finally {
      clearInterval(alive);
      this.#outcome = undefined;
    }
  }

  /** Ends the worker. A pending call fails immediately, although the worker finishes its work first. */
  end(): void {
    trimEndingThread();
    this.#fail(`The ${this.#name} was ended.`);
  }

  #fail(reason: string): void {
    this.#port.close();
    this.#failure ??= new Error(reason);
    this.#outcome?.reject(this.#failure);
  }
}

/**
 * Serves functions of this thread. The memory of their results is transferred. Their errors are sent back: a
 * `HearthError` as a refusal of the input, any other error as a failure. The thread ends after an uncaught error, or
 * when the caller closes the port or terminates the thread.
 */
export function serveFunctions(functions: WorkerFunctions): void {
  const { port } = workerData as WorkerStart;
  const die = (event: Event, error: unknown) => {
    event.preventDefault();
    parentPort!.postMessage(toMessage(error));
    port.close();
  };
  addEventListener("error", (event) => die(event, event.error));
  addEventListener("unhandledrejection", (event) => die(event, event.reason));
  port.onmessage = async ({ data: { name, input } }: MessageEvent<WorkerCall>) => {
    try {
      const output = await functions[name]!(input);
      port.postMessage({ output } satisfies WorkerOutcome, [...new Set(listBuffers(output))]);
    } catch (error) {
      const outcome: WorkerOutcome = error instanceof HearthError
        ? { refused: error.toWire() }
        : { failed: toMessage(error) };
      port.postMessage(outcome);
    }
    collectGarbageLater();
  };
}

function toMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Lists the memory of all typed arrays within plain data. */
function listBuffers(value: unknown): ArrayBuffer[] {
  if (typeof value !== "object" || value === null) return [];
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  return Object.values(value).flatMap(listBuffers);
}
