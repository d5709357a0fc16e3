/**
 * The calling side of the image preprocessing thread.
 *
 * @module
 */
import { numPixelsOf } from "../../media/image_header.ts";
import { StartupError } from "../../errors.ts";
import type { ImageToPrepare, PreparedImage } from "../prepared_image.ts";
import { WorkerPool } from "../worker_pool.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type { VisionThread } from "./vision_thread.ts";

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
  readonly #workers: WorkerPool<VisionThread>;

  private constructor(
    workers: WorkerPool<VisionThread>,
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
    const file = { ...image, maxPixels: this.#maxPixels };
    return await this.#workers.call("prepare", file, { signal, work: numPixelsOf(image.bytes) });
  }

  /** Ends the thread. */
  close(): void {
    this.#workers.close();
  }
}

async function startWorker(
  folder: string,
): Promise<{ rpc: WorkerRpc<VisionThread>; placeholder: string }> {
  const worker = new Worker(new URL("./vision_thread.ts", import.meta.url), { type: "module" });
  const rpc = new WorkerRpc<VisionThread>(worker, "thread that prepares images");
  try {
    return { rpc, placeholder: await rpc.call("load", folder) };
  } catch (cause) {
    rpc.end();
    throw new StartupError((cause as Error).message, { cause });
  }
}
