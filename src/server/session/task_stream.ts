/**
 * The events of one request, as the server reads them from the worker.
 *
 * @module
 */
import { HearthError, type WireError } from "../../base/errors.ts";
import type { TaskEvent, TokenUsage } from "../../models/task.ts";
import { isPaced, type ToRequest } from "../../worker/protocol.ts";
import type { GenerationTimes } from "../../engine/loop.ts";

interface Reader<Event> {
  resolve(result: IteratorResult<Event>): void;
  reject(reason: unknown): void;
}

/**
 * Reads events from a request's port, as an async iterator that ends after `done` or `error`. Only one `next()` may be
 * pending at a time. Ending the iteration early, or aborting `signal`, tells the worker to cancel the request and
 * closes the port. An abort also rejects the pending and every later `next()` with the signal's reason.
 */
export class TaskStream<Event extends TaskEvent> implements AsyncIterableIterator<Event> {
  readonly #port: MessagePort;
  readonly #signal: AbortSignal | undefined;
  readonly #onEnd: (stream: TaskStream<Event>, last: Event | undefined) => void;
  readonly #events: Event[] = [];
  readonly #onAbort = () => this.#cancel();
  #reader: Reader<Event> | undefined;
  #ended = false;

  /** Takes ownership of `port`. `onEnd` is called once, as soon as nothing more can arrive. */
  constructor(
    port: MessagePort,
    options: {
      signal?: AbortSignal | undefined;
      /** `last` is the stream's final event; absent if it was cancelled. */
      onEnd: (stream: TaskStream<Event>, last: Event | undefined) => void;
    },
  ) {
    this.#port = port;
    this.#signal = options.signal;
    this.#onEnd = options.onEnd;
    this.#port.onmessage = ({ data: event }: MessageEvent<Event>) =>
      this.#push(
        event.type === "error" ? { ...event, error: nameRequestField(event.error) } : event,
      );
    if (this.#signal?.aborted) this.#cancel();
    else this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Event>> {
    if (this.#signal?.aborted) return Promise.reject(this.#signal.reason);
    const event = this.#events.shift();
    if (event !== undefined) return Promise.resolve(this.#takeEvent(event));
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => this.#reader = { resolve, reject });
  }

  return(): Promise<IteratorResult<Event>> {
    this.#cancel();
    this.#events.length = 0;
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Ends the stream with an error event in place of the worker, and tells the worker to cancel the request. */
  fail(error: WireError): void {
    if (this.#ended) return;
    this.#tell({ type: "cancel" });
    // Events that are not read yet are dropped: there may be no time to send them before the process exits.
    this.#events.length = 0;
    this.#push({ type: "error", error } as Event);
  }

  #push(event: Event): void {
    if (this.#ended) return;
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) this.#events.push(event);
    else reader.resolve(this.#takeEvent(event));
    if (event.type === "done" || event.type === "error") this.#end(event);
  }

  #takeEvent(event: Event): IteratorResult<Event> {
    if (isPaced(event) && !this.#ended) this.#tell({ type: "taken" });
    return { done: false, value: event };
  }

  #cancel(): void {
    if (this.#ended) return;
    this.#tell({ type: "cancel" });
    this.#end();
    if (this.#signal?.aborted) this.#reader?.reject(this.#signal.reason);
    else this.#reader?.resolve({ done: true, value: undefined });
    this.#reader = undefined;
  }

  #tell(message: ToRequest): void {
    this.#port.postMessage(message);
  }

  #end(last?: Event): void {
    this.#ended = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#port.close();
    this.#onEnd(this, last);
  }
}

/**
 * Yields a task's events, and throws if the task does not succeed.
 *
 * @throws {HearthError} the error of an error event; `inference_failed` when the stream ends without `done`.
 */
export async function* requireSuccess<Event extends TaskEvent>(
  stream: AsyncIterable<Event>,
): AsyncGenerator<Exclude<Event, { type: "error" }>, void> {
  let isDone = false;
  for await (const event of stream) {
    if (event.type === "error") throw HearthError.fromWire(event.error);
    isDone = event.type === "done";
    yield event as Exclude<Event, { type: "error" }>;
  }
  if (!isDone) {
    throw new HearthError("inference_failed", "The model ended this request without a result.");
  }
}

/** Waits for a task's event `done`. @throws {HearthError} as {@linkcode requireSuccess} does. */
export async function waitForDone<Event extends TaskEvent>(
  stream: AsyncIterable<Event>,
): Promise<Extract<Event, { type: "done" }>> {
  let last: TaskEvent | undefined;
  for await (const event of requireSuccess(stream)) last = event;
  return last as Extract<Event, { type: "done" }>;
}

/** Timing of the model's work on a request, in milliseconds of `performance.now()`. */
export interface Work {
  /** Time when the task was sent to the worker. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** Timings of models that generate. */
  readonly times?: GenerationTimes | undefined;
  readonly usage?: TokenUsage | undefined;
}

/** The timings of each request, by its signal. */
const works = new WeakMap<AbortSignal, Work>();

/** Records the timing of the request with this signal, now that the model's work on it has ended. */
export function recordWork(
  signal: AbortSignal,
  { startedAtMs, last }: { readonly startedAtMs: number; readonly last: TaskEvent | undefined },
): void {
  const generated = last?.type === "done" && "times" in last ? last : undefined;
  works.set(signal, {
    startedAtMs,
    endedAtMs: performance.now(),
    times: generated?.times,
    usage: generated?.usage,
  });
}

/** Returns the timing of the request with this signal, if the model worked on it. */
export function getWork(signal: AbortSignal): Work | undefined {
  return works.get(signal);
}

/** The request's names of fields, by the task's names of them, where the names differ. */
const REQUEST_FIELDS: Readonly<Record<string, string>> = {
  continuesFinalMessage: "continue_final_message",
  logitBias: "logit_bias",
  promptName: "prompt_name",
  stopTokenIds: "stop_token_ids",
  timesWords: "timestamp_granularities",
  truncation: "truncate_prompt_tokens",
};

/**
 * Makes an error about a task's field name the request's field, in `param` and at the beginning of the message:
 * `logitBias["7"]` becomes `logit_bias["7"]`. An error that already names a request's field is returned unchanged.
 */
function nameRequestField(error: WireError): WireError {
  const [own = ""] = /^\w+/.exec(error.param ?? "") ?? [];
  const field = REQUEST_FIELDS[own];
  if (field === undefined) return error;
  const param = field + error.param!.slice(own.length);
  return { ...error, param, message: `${param}: ${error.message}` };
}
