/**
 * Calls of functions in a worker, both sides of it.
 *
 * @module
 */
import { collectGarbageLater } from "../collect_garbage.ts";
import { HearthError, type WireError } from "../errors.ts";

/** Functions that a worker offers, of one input each. Inputs and outputs are plain data. */
// deno-lint-ignore no-explicit-any -- a function of any input
export type WorkerFunctions = Readonly<Record<string, (input: any) => unknown>>;

/** A call, as it crosses to the worker. */
interface WorkerCall {
  readonly name: string;
  readonly input: unknown;
}

/** Its outcome, as it crosses back. */
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

/** Calls a running worker, one function at a time. */
export class WorkerRpc<Functions extends WorkerFunctions> {
  readonly #worker: Worker;
  readonly #name: string;
  /** Of the call under way. It is not kept longer: it may be hundreds of megabytes. */
  #outcome: PromiseWithResolvers<WorkerOutcome> | undefined;
  #failure: Error | undefined;

  /** Owns `worker` from here on. @param name its name in error messages. */
  constructor(worker: Worker, name: string) {
    this.#worker = worker;
    this.#name = name;
    worker.onmessage = ({ data }: MessageEvent<WorkerOutcome>) => this.#outcome?.resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`The ${this.#name} died: ${event.message}`);
    };
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
      this.#worker.postMessage(call, transfer);
      return await this.#outcome.promise;
    } finally {
      this.#outcome = undefined;
    }
  }

  /** Ends the worker; a pending call fails. */
  end(): void {
    this.#worker.terminate();
    this.#fail(`The ${this.#name} was ended.`);
  }

  #fail(reason: string): void {
    this.#failure = new Error(reason);
    this.#outcome?.reject(this.#failure);
  }
}

/**
 * Offers functions of this thread. The memory of what they give is transferred; what they throw is sent too: a
 * `HearthError` as refusal of the input, any other error as failure.
 */
export function serveFunctions(functions: WorkerFunctions): void {
  const scope = globalThis as unknown as {
    postMessage(outcome: WorkerOutcome, transfer?: Transferable[]): void;
    onmessage: ((event: MessageEvent<WorkerCall>) => void) | null;
  };
  scope.onmessage = async ({ data: { name, input } }) => {
    try {
      const output = await functions[name]!(input);
      scope.postMessage({ output }, [...new Set(buffersOf(output))]);
    } catch (error) {
      scope.postMessage(
        error instanceof HearthError
          ? { refused: error.toWire() }
          : { failed: error instanceof Error ? error.message : String(error) },
      );
    }
    collectGarbageLater();
  };
}

/** The memory of all arrays in plain data. */
function buffersOf(value: unknown): ArrayBuffer[] {
  if (typeof value !== "object" || value === null) return [];
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  return Object.values(value).flatMap(buffersOf);
}
