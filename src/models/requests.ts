/**
 * Requests that are worked on a few at a time, each until it is answered, refused or cancelled.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import { Places } from "./places.ts";
import type { ErrorEvent } from "./task.ts";

/** One request. */
export interface RequestWork {
  readonly requestId: string;
  /** Hears of what goes wrong; nothing once the request is cancelled. */
  readonly emit: (event: ErrorEvent) => unknown;
  /** Answers it. Throws the signal's reason, or what the client is to be told. */
  readonly answer: (signal: AbortSignal) => Promise<void>;
}

/** See the module. */
export class Requests {
  readonly #places: Places;
  readonly #running = new Map<AbortController, Promise<void>>();

  /** @param size most at a time. */
  constructor(size: number) {
    this.#places = new Places(size);
  }

  /** How many are worked on, and how many wait. */
  get counts(): { running: number; waiting: number } {
    return { running: this.#places.numTaken, waiting: this.#places.numWaiting };
  }

  /** Takes up a request. @returns cancels it. */
  start(work: RequestWork): () => void {
    const abort = new AbortController();
    const running = this.#run(work, abort.signal);
    this.#running.set(abort, running);
    running.finally(() => this.#running.delete(abort));
    return () => abort.abort();
  }

  /** Ends every request unheard and waits until nothing is under way. */
  async close(): Promise<void> {
    for (const abort of this.#running.keys()) abort.abort();
    await Promise.all(this.#running.values());
  }

  async #run({ requestId, emit, answer }: RequestWork, signal: AbortSignal): Promise<void> {
    try {
      const place = await this.#places.take(signal);
      try {
        await answer(signal);
      } finally {
        this.#places.giveBack(place);
      }
    } catch (error) {
      if (signal.aborted) return;
      const known = HearthError.from(error);
      if (known !== error) log.error("request failed", { requestId, error });
      emit({ type: "error", error: known.toWire() });
    }
  }
}
