/**
 * Remote calls of functions in a worker thread, both the calling and the serving side.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { collectGarbageLater } from "../../base/collect_garbage.ts";
import { HearthError, type WireError } from "../../base/errors.ts";
import { startThread } from "../../base/start_thread.ts";
import { trimEndingThread } from "../../base/trim_heap.ts";

/** Functions that a worker offers. Each takes one input; inputs and outputs are plain data. */
// deno-lint-ignore no-explicit-any -- a function of any input
export type WorkerFunctions = Readonly<Record<string, (input: any) => unknown>>;

/** The data that a worker is started with. */
interface WorkerStart {
  readonly port: MessagePort;
}

/** A call, as it is sent to the worker. */
interface WorkerCall {
  readonly name: string;
  readonly input: unknown;
}

/** The outcome of a call, as it is sent back. */
type WorkerOutcome =
  | { readonly output: unknown }
  /** The function refused its input. */
  | { readonly refused: WireError }
  /** The function failed. */
  | { readonly failed: string };

export type InputOf<Functions extends WorkerFunctions, Name extends keyof Functions> = Parameters<
  Functions[Name]
>[0];

export type OutputOf<Functions extends WorkerFunctions, Name extends keyof Functions> = Awaited<
  ReturnType<Functions[Name]>
>;

/** Calls a worker, one function at a time. */
export class WorkerRpc<Functions extends WorkerFunctions> {
  readonly #port: MessagePort;
  readonly #name: string;
  /** Outcome of the current call. It is not kept after the call, as it may be hundreds of megabytes. */
  #outcome: PromiseWithResolvers<WorkerOutcome> | undefined;
  #failure: Error | undefined;

  /**
   * Starts the worker. If that fails, the first call reports it.
   *
   * @param module URL of the worker's file, which calls {@linkcode serveFunctions}.
   * @param name its name in error messages.
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
   * @param transfer memory of the input that is transferred to the worker.
   * @throws {HearthError} when the function refuses its input.
   * @throws {Error} when it fails, or the worker dies.
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
    try {
      this.#port.postMessage(call, transfer);
      return await this.#outcome.promise;
    } finally {
      this.#outcome = undefined;
    }
  }

  /** Ends the worker. A pending call fails at once, although the worker first finishes it. */
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
 * Offers functions of this thread. The memory of their results is transferred. Their errors are sent back: a
 * `HearthError` as refusal of the input, any other error as failure. The thread ends with an uncaught error, or when
 * the other side closes the port or terminates it.
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

/** The memory of all arrays within plain data. */
function listBuffers(value: unknown): ArrayBuffer[] {
  if (typeof value !== "object" || value === null) return [];
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  return Object.values(value).flatMap(listBuffers);
}
