/**
 * Starts threads that help the model's thread. The main thread starts them on its behalf: in Deno 2.9 a worker started
 * by a worker waits half a second for a debugger before it runs its first module.
 *
 * @module
 */
import { Worker } from "node:worker_threads";

/** What a thread receives, and who is told when it ends. */
interface ThreadOptions {
  /** The module's `workerData`; its memory may be shared. */
  readonly workerData: unknown;
  /** Ports in that data. */
  readonly ports?: readonly MessagePort[];
  /** Whether the process is to wait until it has ended. */
  readonly isAwaited?: boolean;
  /**
   * Called when the thread has ended or says why it will: with the message that it posts to its parent, or the error
   * that ended it. Not called if it is terminated first.
   */
  readonly onEnd: (failure?: string) => void;
}

/** A thread that was started. */
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

/** The main thread's port, in a worker that was given it. */
let starter: ThreadStarter | undefined;

/** From now on, lets {@linkcode serveThreads} at the other end of `port` start this worker's threads. */
export function startThreadsBy(port: MessagePort): void {
  starter = new ThreadStarter(port);
}

/** Starts a thread. @param module the address of its file; `deno compile` must be told of it. */
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
  // An uncaught error, such as a module that does not load; Deno writes it to standard error too.
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
 * Starts the threads that a worker at the other end of `port` asks for, until the port is closed. Those that run then end
 * by themselves.
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
