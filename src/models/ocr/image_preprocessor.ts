/**
 * The calling side of the thread that decodes a model's images.
 *
 * @module
 */
import { HearthError, StartupError } from "../../errors.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import type { Pixels } from "../../media/pixels.ts";
import type { ImagePart } from "../task.ts";
import { WorkerPool } from "../worker_pool.ts";
import { type OutputOf, WorkerRpc } from "../worker_rpc.ts";
import type { NormalizedImage } from "./image_reader.ts";
import type { ImageThread } from "./image_thread.ts";

/** The options of preprocessing. */
export interface ImagePreprocessorOptions {
  /** Folder of the model's image processor; absent if only pixels are wanted. */
  readonly folder?: string | undefined;
  /** Largest width × height; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Preprocesses images one at a time. */
export class ImagePreprocessor {
  readonly #maxPixels: number | undefined;
  readonly #workers: WorkerPool<ImageThread>;

  private constructor(
    first: WorkerRpc<ImageThread>,
    { folder, maxPixels }: ImagePreprocessorOptions,
  ) {
    this.#maxPixels = maxPixels;
    this.#workers = new WorkerPool({ size: 1, first, start: () => startWorker(folder) });
  }

  /** @throws {StartupError} when the folder has no known image processor. */
  static async open(options: ImagePreprocessorOptions = {}): Promise<ImagePreprocessor> {
    return new ImagePreprocessor(await startWorker(options.folder), options);
  }

  /**
   * Preprocesses an image file for the model's first graph.
   *
   * @param signal removes it from the queue; an image in progress is finished.
   * @throws {HearthError} `invalid_media`, naming the part, when it is not an image, or the model does not support it.
   * @throws the signal's reason.
   */
  prepare(part: ImagePart, signal: AbortSignal): Promise<NormalizedImage> {
    return this.#call("prepare", part, signal);
  }

  /** The pixels of a file, 3 channels, on a white background. Otherwise as {@linkcode prepare}. */
  decode(part: ImagePart, signal: AbortSignal): Promise<Pixels> {
    return this.#call("decode", part, signal);
  }

  /** Ends the thread. */
  close(): void {
    this.#workers.close();
  }

  async #call<Name extends "prepare" | "decode">(
    name: Name,
    { bytes, param }: ImagePart,
    signal: AbortSignal,
  ): Promise<OutputOf<ImageThread, Name>> {
    const options = { signal, transfer: [bytes.buffer], work: numPixelsOf(bytes) };
    try {
      return await this.#workers.call(name, { bytes, maxPixels: this.#maxPixels }, options);
    } catch (error) {
      if (!(error instanceof HearthError)) throw error;
      throw new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
    }
  }
}

async function startWorker(folder: string | undefined): Promise<WorkerRpc<ImageThread>> {
  const worker = new Worker(new URL("./image_thread.ts", import.meta.url), { type: "module" });
  const rpc = new WorkerRpc<ImageThread>(worker, "thread that decodes images");
  if (folder === undefined) return rpc;
  try {
    await rpc.call("load", folder);
    return rpc;
  } catch (cause) {
    rpc.end();
    const reason = (cause as Error).message;
    throw new StartupError(`The image processor of ${folder} cannot be loaded: ${reason}`, {
      cause,
    });
  }
}
