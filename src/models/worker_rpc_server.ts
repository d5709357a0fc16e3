/**
 * Calls of functions in a worker: the worker's side.
 *
 * @module
 */
import { collectGarbageLater } from "../collect_garbage.ts";
import { HearthError } from "../errors.ts";
import type { WorkerCall, WorkerFunctions, WorkerOutcome } from "./worker_rpc.ts";

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
