/** Calls of a running worker, which answers each message with one message and is asked one thing at a time. */
export class WorkerRpc<Request, Response> {
  readonly #worker: Worker;
  readonly #name: string;
  #answer = Promise.withResolvers<Response>();
  #failure: Error | undefined;

  /** Owns `worker` from here on. @param name what it is called where it fails. */
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
   * @param transfer memory that goes to the worker and is not copied.
   * @throws {Error} when the worker dies of it.
   */
  ask(request: Request, transfer: Transferable[] = []): Promise<Response> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#answer = Promise.withResolvers<Response>();
    this.#worker.postMessage(request, transfer);
    return this.#answer.promise;
  }

  /** Ends the worker; whoever waits for an answer gets an error. */
  end(): void {
    this.#worker.terminate();
    this.#fail(`The ${this.#name} was ended.`);
  }

  #fail(reason: string): void {
    this.#failure = new Error(reason);
    this.#answer.reject(this.#failure);
    // Nobody may be waiting.
    this.#answer.promise.catch(() => {});
  }
}
