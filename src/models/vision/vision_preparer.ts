/**
 * This side of the thread that prepares pictures.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import { AskedThread } from "../asked_thread.ts";
import type {
  FromVisionThread,
  PictureToPrepare,
  PreparedPicture,
  ToVisionThread,
} from "../prepared_picture.ts";
import { type NoAnswer, QueuedThread } from "../queued_thread.ts";

type Thread = AskedThread<ToVisionThread, FromVisionThread | NoAnswer>;

/** What pictures are prepared. */
export interface VisionPreparerOptions {
  /** Largest width × height; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Prepares pictures one after the other. */
export class VisionPreparer {
  /** Stands for a picture in what the chat template makes. */
  readonly placeholder: string;
  readonly #maxPixels: number | undefined;
  readonly #thread: QueuedThread<ToVisionThread, FromVisionThread>;

  private constructor(
    thread: QueuedThread<ToVisionThread, FromVisionThread>,
    { placeholder, maxPixels }: VisionPreparerOptions & { readonly placeholder: string },
  ) {
    this.#thread = thread;
    this.placeholder = placeholder;
    this.#maxPixels = maxPixels;
  }

  /** @throws {StartupError} when the folder names no processor that is known. */
  static async open(folder: string, options: VisionPreparerOptions = {}): Promise<VisionPreparer> {
    const { thread, placeholder } = await startThread(folder);
    const queued = new QueuedThread(thread, async () => (await startThread(folder)).thread);
    return new VisionPreparer(queued, { ...options, placeholder });
  }

  /**
   * Prepares a picture.
   *
   * @param signal takes it out of the queue; a picture whose turn has come is prepared to its end.
   * @throws {HearthError} `invalid_media` when the file is no picture, or one that the model cannot take.
   * @throws the signal's reason.
   */
  async prepare(picture: PictureToPrepare, signal: AbortSignal): Promise<PreparedPicture> {
    const question = { ...picture, type: "prepare", maxPixels: this.#maxPixels } as const;
    const answer = await this.#thread.ask(question, { signal });
    if (answer.type === "prepared") return answer.picture;
    throw new Error(`The thread that prepares pictures answered "${answer.type}".`);
  }

  /** Ends the thread. */
  close(): void {
    this.#thread.close();
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
