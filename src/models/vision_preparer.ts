/**
 * This side of the thread that prepares pictures.
 *
 * @module
 */
import { HearthError, StartupError } from "../errors.ts";
import { Places } from "./places.ts";
import type { FromVisionThread, PreparedPicture, ToVisionThread } from "./vision_picture.ts";

/** Prepares pictures one after the other; a thread that dies is replaced when the next one comes. */
export class VisionPreparer {
  /** Stands for a picture in what the chat template makes. */
  readonly placeholder: string;
  readonly #folder: string;
  readonly #turn = new Places(1);
  #thread: Thread | undefined;

  private constructor(folder: string, thread: Thread, placeholder: string) {
    this.#folder = folder;
    this.#thread = thread;
    this.placeholder = placeholder;
  }

  /** @throws {StartupError} when the folder names no processor that is known. */
  static async start(folder: string): Promise<VisionPreparer> {
    const thread = new Thread();
    const answer = await thread.ask({ type: "load", folder });
    if (answer.type === "loaded") return new VisionPreparer(folder, thread, answer.placeholder);
    thread.end();
    throw new StartupError(answer.type === "failed" ? answer.reason : "No answer to load.");
  }

  /**
   * Prepares the picture of a file.
   *
   * @param signal takes it out of the queue; a picture whose turn has come is prepared to its end.
   * @throws {HearthError} `invalid_media` when the file is no picture, or one that the model cannot take.
   * @throws the signal's reason.
   */
  async prepare(
    bytes: Uint8Array<ArrayBuffer>,
    signal: AbortSignal,
  ): Promise<PreparedPicture> {
    const place = await this.#turn.take(signal);
    try {
      const thread = this.#thread ??= await this.#restart();
      const answer = await thread.ask({ type: "prepare", bytes });
      if (answer.type === "prepared") return answer.picture;
      if (answer.type === "refused") throw HearthError.fromWire(answer.error);
      throw new Error(`The thread that prepares pictures answered "${answer.type}".`);
    } catch (error) {
      if (!(error instanceof HearthError)) this.close();
      throw error;
    } finally {
      this.#turn.giveBack(place);
    }
  }

  /** Ends the thread. */
  close(): void {
    this.#thread?.end();
    this.#thread = undefined;
  }

  async #restart(): Promise<Thread> {
    const thread = new Thread();
    await thread.ask({ type: "load", folder: this.#folder });
    return thread;
  }
}

/** A running thread that is asked one thing at a time. */
class Thread {
  readonly #worker = new Worker(new URL("./vision_thread.ts", import.meta.url), { type: "module" });
  #answer = Promise.withResolvers<FromVisionThread>();
  #failure: Error | undefined;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<FromVisionThread>) =>
      this.#answer.resolve(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`The thread that prepares pictures died: ${event.message}`);
    };
  }

  /** @throws {Error} when the thread dies of it. */
  ask(message: ToVisionThread): Promise<FromVisionThread> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#answer = Promise.withResolvers<FromVisionThread>();
    this.#worker.postMessage(message);
    return this.#answer.promise;
  }

  end(): void {
    this.#worker.terminate();
    this.#fail("The thread that prepares pictures was ended.");
  }

  #fail(reason: string): void {
    this.#failure = new Error(reason);
    this.#answer.reject(this.#failure);
    // Nobody may be waiting.
    this.#answer.promise.catch(() => {});
  }
}
