/**
 * This side of the thread that prepares pictures.
 *
 * @module
 */
import { numPixelsOf } from "../../media/image_header.ts";
import { StartupError } from "../../errors.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type {
  FromVisionThread,
  PictureToPrepare,
  PreparedPicture,
  ToVisionThread,
} from "../prepared_picture.ts";
import { type WorkerFailure, WorkerPool } from "../worker_pool.ts";

type Rpc = WorkerRpc<ToVisionThread, FromVisionThread | WorkerFailure>;

/** What pictures are prepared. */
export interface VisionPreprocessorOptions {
  /** Largest width × height; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Prepares pictures one after the other. */
export class VisionPreprocessor {
  /** Stands for a picture in what the chat template makes. */
  readonly placeholder: string;
  readonly #maxPixels: number | undefined;
  readonly #workers: WorkerPool<ToVisionThread, FromVisionThread>;

  private constructor(
    workers: WorkerPool<ToVisionThread, FromVisionThread>,
    { placeholder, maxPixels }: VisionPreprocessorOptions & { readonly placeholder: string },
  ) {
    this.#workers = workers;
    this.placeholder = placeholder;
    this.#maxPixels = maxPixels;
  }

  /** @throws {StartupError} when the folder names no processor that is known. */
  static async open(
    folder: string,
    options: VisionPreprocessorOptions = {},
  ): Promise<VisionPreprocessor> {
    const { rpc, placeholder } = await startWorker(folder);
    const start = async () => (await startWorker(folder)).rpc;
    const workers = new WorkerPool({ size: 1, first: rpc, start });
    return new VisionPreprocessor(workers, { ...options, placeholder });
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
    const answer = await this.#workers.ask(question, { signal, work: numPixelsOf(picture.bytes) });
    if (answer.type === "prepared") return answer.picture;
    throw new Error(`The thread that prepares pictures answered "${answer.type}".`);
  }

  /** Ends the thread. */
  close(): void {
    this.#workers.close();
  }
}

async function startWorker(folder: string): Promise<{ rpc: Rpc; placeholder: string }> {
  const worker = new Worker(new URL("./vision_thread.ts", import.meta.url), { type: "module" });
  const rpc: Rpc = new WorkerRpc(worker, "thread that prepares pictures");
  const answer = await rpc.ask({ type: "load", folder });
  if (answer.type === "loaded") return { rpc, placeholder: answer.placeholder };
  rpc.end();
  throw new StartupError(answer.type === "failed" ? answer.reason : "No answer to load.");
}
