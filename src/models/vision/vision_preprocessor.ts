/**
 * The calling side of the image preprocessing thread.
 *
 * @module
 */
import { numPixelsOf } from "../../media/image_header.ts";
import { StartupError } from "../../errors.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type {
  FromVisionThread,
  ImageToPrepare,
  PreparedImage,
  ToVisionThread,
} from "../prepared_image.ts";
import { type WorkerFailure, WorkerPool } from "../worker_pool.ts";

type Rpc = WorkerRpc<ToVisionThread, FromVisionThread | WorkerFailure>;

/** The options of preprocessing. */
export interface VisionPreprocessorOptions {
  /** Largest width × height; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Preprocesses images one at a time. */
export class VisionPreprocessor {
  /** Placeholder of an image in the rendered chat template. */
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

  /** @throws {StartupError} when the folder names no known processor. */
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
   * Preprocesses an image.
   *
   * @param signal removes it from the queue; an image in progress is finished.
   * @throws {HearthError} `invalid_media` when the file is not an image, or the model does not support it.
   * @throws the signal's reason.
   */
  async prepare(image: ImageToPrepare, signal: AbortSignal): Promise<PreparedImage> {
    const question = { ...image, type: "prepare", maxPixels: this.#maxPixels } as const;
    const answer = await this.#workers.ask(question, { signal, work: numPixelsOf(image.bytes) });
    if (answer.type === "prepared") return answer.image;
    throw new Error(`The thread that prepares images answered "${answer.type}".`);
  }

  /** Ends the thread. */
  close(): void {
    this.#workers.close();
  }
}

async function startWorker(folder: string): Promise<{ rpc: Rpc; placeholder: string }> {
  const worker = new Worker(new URL("./vision_thread.ts", import.meta.url), { type: "module" });
  const rpc: Rpc = new WorkerRpc(worker, "thread that prepares images");
  const answer = await rpc.ask({ type: "load", folder });
  if (answer.type === "loaded") return { rpc, placeholder: answer.placeholder };
  rpc.end();
  throw new StartupError(answer.type === "failed" ? answer.reason : "No answer to load.");
}
