/**
 * Work that is under way for requests, each until it is done, refused or cancelled.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import type { ErrorEvent } from "./task.ts";

/** What is done for one request. */
export interface Work {
  readonly requestId: string;
  /** For the log: `transcription`. */
  readonly what: string;
  /** Hears of what goes wrong; nothing once the work is cancelled. */
  readonly emit: (event: ErrorEvent) => unknown;
  /** Where the media of the request stand in it: what they are refused for begins with it. */
  readonly param?: string | undefined;
  /** Does it. Throws the signal's reason, or what the client is to be told. */
  readonly answer: (signal: AbortSignal) => Promise<void>;
}

/** See the module. */
export class WorkUnderWay {
  readonly #running = new Map<AbortController, Promise<void>>();

  /** How much there is. */
  get size(): number {
    return this.#running.size;
  }

  /** @returns cancels it. */
  start(work: Work): () => void {
    const abort = new AbortController();
    const running = run(work, abort.signal);
    this.#running.set(abort, running);
    running.finally(() => this.#running.delete(abort));
    return () => abort.abort();
  }

  /** Cancels all of it. */
  cancel(): void {
    for (const abort of this.#running.keys()) abort.abort();
  }

  /** Waits until nothing is under way. */
  async settle(): Promise<void> {
    await Promise.all(this.#running.values());
  }
}

async function run(
  { requestId, what, emit, param, answer }: Work,
  signal: AbortSignal,
): Promise<void> {
  try {
    await answer(signal);
  } catch (error) {
    if (signal.aborted) return;
    const known = HearthError.from(error);
    if (known.kind === "inference_failed") log.error(`${what} failed`, { requestId, error });
    emit({ type: "error", error: nameMedia(known, param).toWire() });
  }
}

/** The same refusal, with the place of what cannot be read. */
function nameMedia(error: HearthError, param: string | undefined): HearthError {
  if (param === undefined || error.kind !== "invalid_media") return error;
  return new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
}
