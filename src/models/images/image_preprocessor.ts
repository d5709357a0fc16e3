/**
 * Decodes and preprocesses a model's images on a separate thread (`image_thread.ts`).
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { countPixels } from "../../media/image.ts";
import type { ImageThread } from "./image_thread.ts";
import type { ImageToPrepare } from "./vision_processor.ts";
import { type OutputOf, WorkerPool, WorkerRpc } from "../threads/worker_pool.ts";

interface Options {
  /** The processor of a model folder; absent if images are only decoded. */
  readonly processor?: {
    readonly load: "loadImageProcessor" | "loadProcessor";
    readonly folder: string;
  };
  /** Largest width × height; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Preprocesses images one at a time. */
export class ImagePreprocessor {
  /** Placeholder of an image in the rendered chat template; empty unless the processor is for prompts. */
  readonly placeholder: string;
  readonly #maxPixels: number | undefined;
  readonly #workers: WorkerPool<ImageThread>;

  private constructor(
    { rpc: first, placeholder }: Awaited<ReturnType<typeof startWorker>>,
    { processor, maxPixels }: Options,
  ) {
    this.placeholder = placeholder;
    this.#maxPixels = maxPixels;
    const start = async () => (await startWorker(processor)).rpc;
    this.#workers = new WorkerPool({ size: 1, first, start });
  }

  /** @throws {StartupError} when the folder does not name a supported processor. */
  static async open(options: Options = {}): Promise<ImagePreprocessor> {
    return new ImagePreprocessor(await startWorker(options.processor), options);
  }

  /**
   * Calls a function of the thread with an image file.
   *
   * @param options.signal aborting it removes the call from the queue, but an image in progress is finished.
   * @param options.isGiven whether the file's memory may be transferred to the thread.
   * @throws {HearthError} `invalid_media` when the file is not an image, or the model does not support it.
   * @throws the signal's reason.
   */
  async call<Name extends "decode" | "normalize" | "prepare">(
    name: Name,
    { bytes, keepsWhole }: ImageToPrepare,
    { signal, isGiven = false }: { readonly signal: AbortSignal; readonly isGiven?: boolean },
  ): Promise<OutputOf<ImageThread, Name>> {
    const file = { bytes, keepsWhole, maxPixels: this.#maxPixels };
    const transfer = isGiven ? [bytes.buffer] : [];
    return await this.#workers.call(name, file, { signal, transfer, work: countPixels(bytes) });
  }

  close(): void {
    this.#workers.close();
  }
}

async function startWorker(
  processor: Options["processor"],
): Promise<{ readonly rpc: WorkerRpc<ImageThread>; readonly placeholder: string }> {
  const module = new URL("./image_thread.ts", import.meta.url);
  const rpc = new WorkerRpc<ImageThread>(module, "thread that decodes images");
  if (processor === undefined) return { rpc, placeholder: "" };
  try {
    return { rpc, placeholder: await rpc.call(processor.load, processor.folder) };
  } catch (cause) {
    rpc.end();
    const reason = (cause as Error).message;
    throw new StartupError(
      `The image processor of ${processor.folder} cannot be loaded: ${reason}`,
      { cause },
    );
  }
}
