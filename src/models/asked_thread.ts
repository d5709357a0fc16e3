/**
 * A thread that does one thing after the other.
 *
 * @module
 */

/** A running thread that answers each message with one message, and is asked one thing at a time. */
export class AskedThread<Question, Answer> {
  readonly #worker: Worker;
  readonly #name: string;
  #answer = Promise.withResolvers<Answer>();
  #failure: Error | undefined;

  /** Owns `worker` from here on. @param name what it is called where it fails. */
  constructor(worker: Worker, name: string) {
    this.#worker = worker;
    this.#name = name;
    worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#answer.resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`The ${this.#name} died: ${event.message}`);
    };
  }

  /**
   * @param transfer memory that goes to the thread and is not copied.
   * @throws {Error} when the thread dies of it.
   */
  ask(question: Question, transfer: Transferable[] = []): Promise<Answer> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#answer = Promise.withResolvers<Answer>();
    this.#worker.postMessage(question, transfer);
    return this.#answer.promise;
  }

  /** Ends the thread; whoever waits for an answer gets an error. */
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
