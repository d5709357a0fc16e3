/** Calls to a running worker, one at a time; it answers each message with one message. */
export class WorkerRpc<Request, Response> {
  readonly #worker: Worker;
  readonly #name: string;
  #answer = Promise.withResolvers<Response>();
  #failure: Error | undefined;

  /** Owns `worker` from here on. @param name its name in error messages. */
  constructor(worker: Worker, name: string) {
    this.#worker = worker;
    this.#name = name;
    worker.onmessage = ({ data }: MessageEvent<Response>) => this.#answer.resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`The ${this.#name} died: ${event.message}`);
    };
  }

  /**
   * @param transfer memory transferred to the worker.
   * @throws {Error} when the worker dies.
   */
  ask(request: Request, transfer: Transferable[] = []): Promise<Response> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#answer = Promise.withResolvers<Response>();
    this.#worker.postMessage(request, transfer);
    return this.#answer.promise;
  }

  /** Ends the worker; a pending call fails. */
  end(): void {
    this.#worker.terminate();
    this.#fail(`The ${this.#name} was ended.`);
  }

  #fail(reason: string): void {
    this.#failure = new Error(reason);
    this.#answer.reject(this.#failure);
    // There may be no pending call.
    this.#answer.promise.catch(() => {});
  }
}
