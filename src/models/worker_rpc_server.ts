/**
 * The worker's side of `WorkerRpc`.
 *
 * @module
 */
import { collectGarbageLater } from "../collect_garbage.ts";
import { HearthError } from "../errors.ts";
import type { WorkerFailure } from "./worker_pool.ts";

/** A response, and the memory transferred with it. */
export interface WorkerResponse<Response> {
  readonly message: Response;
  readonly transfer?: Transferable[];
}

/**
 * Answers each message to this thread with one message. Errors of `respond` are sent too: a `HearthError` as refusal of
 * the request, any other as failure of the worker.
 */
export function serveRequests<Request, Response>(
  respond: (request: Request) => Promise<WorkerResponse<Response>>,
): void {
  const scope = globalThis as unknown as {
    postMessage(message: Response | WorkerFailure, transfer?: Transferable[]): void;
    onmessage: ((event: MessageEvent<Request>) => void) | null;
  };
  scope.onmessage = async ({ data: request }) => {
    try {
      const { message, transfer } = await respond(request);
      scope.postMessage(message, transfer);
    } catch (error) {
      scope.postMessage(
        error instanceof HearthError
          ? { type: "refused", error: error.toWire() }
          : { type: "failed", reason: error instanceof Error ? error.message : String(error) },
      );
    }
    collectGarbageLater();
  };
}
