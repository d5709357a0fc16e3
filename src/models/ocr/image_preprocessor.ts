/**
 * The calling side of the thread that decodes a model's images.
 *
 * @module
 */
import { numPixelsOf } from "../../media/image_header.ts";
import { HearthError, StartupError } from "../../errors.ts";
import type { Pixels } from "../../media/pixels.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type { FromImageThread, NormalizedImage, ToImageThread } from "./image_message.ts";
import { type WorkerFailure, WorkerPool } from "../worker_pool.ts";
import type { ImagePart } from "../task.ts";

type Rpc = WorkerRpc<ToImageThread, FromImageThread | WorkerFailure>;

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
  readonly #workers: WorkerPool<ToImageThread, FromImageThread>;

  private constructor(first: Rpc, { folder, maxPixels }: ImagePreprocessorOptions) {
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
  async prepare(part: ImagePart, signal: AbortSignal): Promise<NormalizedImage> {
    const answer = await this.#ask("prepare", part, signal);
    if (answer.type === "prepared") return answer.image;
    throw unexpected(answer);
  }

  /** The pixels of a file, 3 channels, on a white background. Otherwise as {@linkcode prepare}. */
  async decode(part: ImagePart, signal: AbortSignal): Promise<Pixels> {
    const answer = await this.#ask("decode", part, signal);
    if (answer.type === "decoded") return answer.pixels;
    throw unexpected(answer);
  }

  /** Ends the thread. */
  close(): void {
    this.#workers.close();
  }

  async #ask(
    type: "prepare" | "decode",
    { bytes, param }: ImagePart,
    signal: AbortSignal,
  ): Promise<FromImageThread> {
    const question = { type, bytes, maxPixels: this.#maxPixels };
    const work = numPixelsOf(bytes);
    try {
      return await this.#workers.ask(question, { signal, transfer: [bytes.buffer], work });
    } catch (error) {
      if (!(error instanceof HearthError)) throw error;
      throw new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
    }
  }
}

function unexpected({ type }: FromImageThread): Error {
  return new Error(`The thread that decodes images answered "${type}".`);
}

async function startWorker(folder: string | undefined): Promise<Rpc> {
  const worker = new Worker(new URL("./image_thread.ts", import.meta.url), { type: "module" });
  const rpc: Rpc = new WorkerRpc(worker, "thread that decodes images");
  if (folder === undefined) return rpc;
  const answer = await rpc.ask({ type: "load", folder });
  if (answer.type === "loaded") return rpc;
  rpc.end();
  throw new StartupError(
    `The image processor of ${folder} cannot be loaded: ${
      answer.type === "failed" ? answer.reason : `it answered "${answer.type}"`
    }`,
  );
}
