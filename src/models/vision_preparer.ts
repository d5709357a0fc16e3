/**
 * This side of the thread that prepares pictures.
 *
 * @module
 */
import { HearthError, StartupError } from "../errors.ts";
import { AskedThread } from "./asked_thread.ts";
import { Places } from "./places.ts";
import type {
  FromVisionThread,
  PictureToPrepare,
  PreparedPicture,
  ToVisionThread,
} from "./prepared_picture.ts";

type Thread = AskedThread<ToVisionThread, FromVisionThread>;

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
    const { thread, placeholder } = await startThread(folder);
    return new VisionPreparer(folder, thread, placeholder);
  }

  /**
   * Prepares a picture.
   *
   * @param signal takes it out of the queue; a picture whose turn has come is prepared to its end.
   * @throws {HearthError} `invalid_media` when the file is no picture, or one that the model cannot take.
   * @throws the signal's reason.
   */
  async prepare(picture: PictureToPrepare, signal: AbortSignal): Promise<PreparedPicture> {
    const place = await this.#turn.take(signal);
    try {
      const thread = this.#thread ??= (await startThread(this.#folder)).thread;
      const answer = await thread.ask({ ...picture, type: "prepare" });
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
}

async function startThread(folder: string): Promise<{ thread: Thread; placeholder: string }> {
  const worker = new Worker(new URL("./vision_thread.ts", import.meta.url), { type: "module" });
  const thread: Thread = new AskedThread(worker, "thread that prepares pictures");
  const answer = await thread.ask({ type: "load", folder });
  if (answer.type === "loaded") return { thread, placeholder: answer.placeholder };
  thread.end();
  throw new StartupError(answer.type === "failed" ? answer.reason : "No answer to load.");
}
