/**
 * Threads that help the model's thread, and counters from which the main thread sees whether the model's thread runs a
 * step.
 *
 * The main thread starts the helpers: in Deno 2.9 a worker started by a worker waits half a second for a debugger
 * before it runs its first module.
 *
 * @module
 */
import { Worker } from "node:worker_threads";

/** The data that a thread receives, and a listener for its end. */
interface ThreadOptions {
  /** The module's `workerData`; its memory may be shared. */
  readonly workerData: unknown;
  /** Ports that `workerData` contains, to be transferred. */
  readonly ports?: readonly MessagePort[];
  /** Whether the process stays alive until the thread has ended; of use only on the main thread. */
  readonly isAwaited?: boolean;
  /**
   * Called once when the thread has ended, or has posted the reason why it will end. `failure` is that reason, or the
   * error that ended the thread. Not called if the thread is terminated first.
   */
  readonly onEnd: (failure?: string) => void;
}

export interface Thread {
  terminate(): void;
}

/** Messages to the main thread. */
type ToStarter =
  | {
    readonly type: "start";
    readonly id: number;
    readonly module: string;
    readonly workerData: unknown;
    readonly ports: readonly MessagePort[];
  }
  | { readonly type: "terminate"; readonly id: number };

/** Messages from the main thread. */
interface ThreadEnd {
  readonly id: number;
  readonly failure: string | undefined;
}

/** Asks the main thread to start threads; only set in a worker. */
let starter: ThreadStarter | undefined;

/** From now on, {@linkcode serveThreads} at the other end of `port` starts this worker's threads. */
export function startThreadsBy(port: MessagePort): void {
  starter = new ThreadStarter(port);
}

/** Starts a thread. @param module URL of its file, which must also be passed to `deno compile`. */
export function startThread(module: URL, options: ThreadOptions): Thread {
  return starter?.start(module, options) ?? startHere(module, options);
}

function startHere(
  module: URL,
  { workerData, ports = [], isAwaited = false, onEnd }: ThreadOptions,
): Thread {
  const worker = new Worker(module, { workerData, transferList: [...ports] as never });
  let hasEnded = false;
  const end = (failure?: string) => {
    if (hasEnded) return;
    hasEnded = true;
    onEnd(failure);
  };
  worker.on("message", (failure: string) => end(failure));
  // An uncaught error, such as a module that does not load. Deno also writes it to standard error.
  worker.on("error", (error) => end(error.message));
  worker.on("exit", (code) => end(code === 0 ? undefined : `It ended with code ${code}.`));
  if (!isAwaited) worker.unref();
  return {
    terminate: () => {
      hasEnded = true;
      void worker.terminate();
    },
  };
}

class ThreadStarter {
  readonly #port: MessagePort;
  readonly #onEnd = new Map<number, ThreadOptions["onEnd"]>();
  #lastId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
    port.onmessage = ({ data: { id, failure } }: MessageEvent<ThreadEnd>) => {
      this.#onEnd.get(id)?.(failure);
      this.#onEnd.delete(id);
    };
  }

  start(module: URL, { workerData, ports = [], onEnd }: ThreadOptions): Thread {
    const id = ++this.#lastId;
    this.#onEnd.set(id, onEnd);
    this.#send({ type: "start", id, module: module.href, workerData, ports }, ports);
    return {
      terminate: () => {
        if (this.#onEnd.delete(id)) this.#send({ type: "terminate", id });
      },
    };
  }

  #send(message: ToStarter, ports: readonly MessagePort[] = []): void {
    this.#port.postMessage(message, [...ports]);
  }
}

/**
 * Starts the threads that a worker at the other end of `port` asks for, until the port is closed. Threads that are
 * still running then end by themselves.
 */
export function serveThreads(port: MessagePort): void {
  const running = new Map<number, Thread>();
  const end = (id: number, failure?: string) => {
    running.delete(id);
    port.postMessage({ id, failure } satisfies ThreadEnd);
  };
  port.onmessage = ({ data: message }: MessageEvent<ToStarter>) => {
    const { id } = message;
    if (message.type === "start") {
      const { module, workerData, ports } = message;
      const onEnd = (failure?: string) => end(id, failure);
      running.set(id, startHere(new URL(module), { workerData, ports, onEnd }));
    } else {
      running.get(id)?.terminate();
      running.delete(id);
    }
  };
}

// Counters of the model's running steps, in memory that another thread can read: a thread that computes answers no
// messages.

const RUNNING = 0;
const CHANGES = 1;

/** The counters as a watching thread sees them. */
export interface StepCounts {
  /** Steps that have begun and not ended. */
  readonly running: number;
  /** How often a step has begun or ended; it wraps around. */
  readonly changes: number;
}

let counters: Int32Array = new Int32Array(2);

/** Makes memory for the counters of a thread. */
export function makeStepMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
}

/** Makes this thread count its steps in `memory`. Call it before the first step. */
export function countStepsIn(memory: SharedArrayBuffer): void {
  counters = new Int32Array(memory);
}

/** Reads the counters of another thread. */
export function readSteps(memory: SharedArrayBuffer): StepCounts {
  const words = new Int32Array(memory);
  return { running: Atomics.load(words, RUNNING), changes: Atomics.load(words, CHANGES) };
}

/** Runs a step of the model and counts it. Steps may be nested. */
export async function runStep<T>(step: () => Promise<T>): Promise<T> {
  change(1);
  try {
    return await step();
  } finally {
    change(-1);
  }
}

function change(by: 1 | -1): void {
  Atomics.add(counters, RUNNING, by);
  Atomics.add(counters, CHANGES, 1);
}
