/**
 * The requests in progress of a model, and what they share: work that is done once for all requests that need it, and a
 * cache with a limit on its bytes.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { Semaphore } from "./semaphore.ts";
import type { ErrorEvent } from "../task.ts";
import { untilAborted } from "../../base/timing.ts";

/** A request in progress, until it is answered, refused or cancelled. */
interface ActiveRequest {
  readonly requestId: string;
  /** Name of the request in the log: `transcription`. */
  readonly what: string;
  /** Receives the error if the request fails; not called after cancellation. */
  readonly emit: (event: ErrorEvent) => unknown;
  /** Amount of work in any unit. Small requests overtake waiting large ones. */
  readonly work?: number | undefined;
  /** JSON path of the request's media, for errors about them. */
  readonly param?: string | undefined;
  /**
   * Does the work.
   *
   * @param slot counted from 0, unique among running requests.
   * @throws the signal's reason; or an error, which is passed to `emit`.
   */
  readonly answer: (signal: AbortSignal, slot: number) => Promise<void>;
}

export class ActiveRequests {
  readonly #active = new Map<AbortController, Promise<void>>();
  readonly #semaphore: Semaphore | undefined;

  /**
   * @param maxRunning maximum number of requests that run at a time, while others wait; no limit if absent.
   * @param options.maxSmall requests with more work than this take at most half of the slots.
   */
  constructor(maxRunning?: number, options: { readonly maxSmall?: number } = {}) {
    this.#semaphore = maxRunning === undefined ? undefined : new Semaphore(maxRunning, options);
  }

  /** Number of running and waiting requests. */
  get size(): number {
    return this.#active.size;
  }

  /** Numbers of running and of waiting requests. */
  get counts(): { readonly running: number; readonly waiting: number } {
    const waiting = this.#semaphore?.numWaiting ?? 0;
    return { running: this.#semaphore?.numAcquired ?? this.size, waiting };
  }

  /**
   * Starts a request.
   *
   * @returns a function that cancels it.
   */
  start(request: ActiveRequest): () => void {
    const abort = new AbortController();
    const { signal } = abort;
    const running = run(request, { answer: () => this.#answer(request, signal), signal });
    this.#active.set(abort, running);
    running.finally(() => this.#active.delete(abort));
    return () => abort.abort();
  }

  /** Cancels all requests. */
  cancel(): void {
    for (const abort of this.#active.keys()) abort.abort();
  }

  /** Waits until all requests have ended. */
  async settle(): Promise<void> {
    await Promise.all(this.#active.values());
  }

  async #answer({ answer, work }: ActiveRequest, signal: AbortSignal): Promise<void> {
    if (this.#semaphore === undefined) return await answer(signal, 0);
    const slot = await this.#semaphore.acquire(signal, { work });
    try {
      await answer(signal, slot);
    } finally {
      this.#semaphore.release(slot);
    }
  }
}

async function run(
  request: ActiveRequest,
  { answer, signal }: { readonly answer: () => Promise<void>; readonly signal: AbortSignal },
): Promise<void> {
  try {
    await answer();
  } catch (error) {
    if (!signal.aborted) emitError(error, request);
  }
}

/** Sends a request's error to the client and logs it, unless the client caused it. */
export function emitError(
  error: unknown,
  { requestId, what, emit, param }: Pick<ActiveRequest, "requestId" | "what" | "emit" | "param">,
): void {
  const known = HearthError.from(error);
  if (known.kind === "inference_failed") logFailure(error, { requestId, what });
  emit({ type: "error", error: nameMedia(known, param).toWire() });
}

/** Number of requests that each error has ended, until the error is logged. */
const ended = new Map<unknown, number>();

/** Logs an error once, even if it ends all requests of a step or a batch. */
function logFailure(
  error: unknown,
  { requestId, what }: Pick<ActiveRequest, "requestId" | "what">,
): void {
  const numBefore = ended.get(error) ?? 0;
  ended.set(error, numBefore + 1);
  if (numBefore > 0) return;
  queueMicrotask(() => {
    const numRequests = ended.get(error);
    ended.delete(error);
    log.error(`${what} failed`, { requestId, numRequests, error });
  });
}

/** Puts the JSON path of the media before the message of an error about media. */
export function nameMedia<E>(error: E, param: string | undefined): E | HearthError {
  const isOfMedia = error instanceof HearthError && error.kind === "invalid_media";
  if (param === undefined || !isOfMedia) return error;
  return new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
}

interface Job<Result> {
  readonly result: Promise<Result>;
  readonly abort: AbortController;
  numWanting: number;
}

/** Work that is done once for all callers that need it, and cancelled when no caller needs it any longer. */
export class SharedJobs<Result> {
  readonly #jobs = new Map<string, Job<Result>>();

  /**
   * Waits for a job, and starts it unless it is running.
   *
   * @param begin does the work. Its signal is aborted when all callers have left.
   * @throws the signal's reason, or the errors of the work.
   */
  async join(
    key: string,
    begin: (signal: AbortSignal) => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result> {
    signal.throwIfAborted();
    const job = this.#jobs.get(key) ?? this.#begin(key, begin);
    job.numWanting++;
    try {
      return await untilAborted(job.result, signal);
    } finally {
      if (--job.numWanting === 0) {
        // Later callers start a new job.
        this.#forget(key, job);
        job.abort.abort();
      }
    }
  }

  #begin(key: string, begin: (signal: AbortSignal) => Promise<Result>): Job<Result> {
    const abort = new AbortController();
    const job: Job<Result> = { result: begin(abort.signal), abort, numWanting: 0 };
    this.#jobs.set(key, job);
    const forget = () => this.#forget(key, job);
    job.result.then(forget, forget);
    return job;
  }

  #forget(key: string, job: Job<Result>): void {
    if (this.#jobs.get(key) === job) this.#jobs.delete(key);
  }
}

/** A cache with a limit on the bytes of its values. The value added last is kept regardless of its size. */
export class ByteBudgetCache<Value> {
  readonly #maxBytes: number;
  readonly #drop: (value: Value) => void;
  /** Entries, the least recently used first. */
  readonly #entries = new Map<string, { readonly value: Value; readonly numBytes: number }>();
  #numBytes = 0;

  /** @param drop called with each evicted value. */
  constructor(maxBytes: number, drop: (value: Value) => void = () => {}) {
    this.#maxBytes = maxBytes;
    this.#drop = drop;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  /** Returns the value of a key, which counts as use. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Adds or replaces a value, and evicts the least recently used ones if there are too many bytes. */
  set(key: string, value: Value, numBytes: number): void {
    this.delete(key);
    this.#entries.set(key, { value, numBytes });
    this.#numBytes += numBytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#numBytes <= this.#maxBytes || oldest === key) break;
      this.delete(oldest);
    }
  }

  /** Drops the value of a key, if there is one. */
  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#numBytes -= entry.numBytes;
    this.#drop(entry.value);
  }

  clear(): void {
    for (const key of [...this.#entries.keys()]) this.delete(key);
  }
}
