/**
 * The calling side of the threads that decode and encode images.
 *
 * @module
 */
import { MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import type { Pixels } from "../../media/pixels.ts";
import { WorkerPool } from "../worker_pool.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type { Codec } from "./codec.ts";
import type { CodecThread } from "./codec_thread.ts";
import { type CutOut, joinCutOut, splitCutOut, type WholeCutOut } from "./cut_out.ts";

/** More threads would wait for the thread that owns the device. */
const MAX_THREADS = 4;
/** Smaller stripes are not worth a thread. */
const MIN_STRIPE_PIXELS = 2 ** 18;
/** Larger stripes would delay smaller images. */
const MAX_STRIPE_PIXELS = 2 ** 22;

/** How many threads, for which images. */
export interface CodecThreadsOptions {
  /** All cores if absent, at most 4: the thread that owns the device waits or works on another image. */
  readonly maxThreads?: number | undefined;
  /** Largest width × height that is decoded; the decoder's own limit if absent. */
  readonly maxPixels?: number | undefined;
}

/** Threads are started on demand; all but one end when they are idle. */
export class CodecThreads implements Codec {
  readonly #workers: WorkerPool<CodecThread>;
  readonly #maxThreads: number;
  readonly #maxPixels: number | undefined;

  constructor({
    maxThreads = Math.min(MAX_THREADS, navigator.hardwareConcurrency),
    maxPixels,
  }: CodecThreadsOptions = {}) {
    this.#maxThreads = maxThreads;
    // Terminating the thread is the only way to stop a decoder.
    this.#workers = new WorkerPool({
      size: maxThreads,
      start: startWorker,
      endsAborted: true,
      maxSmall: MAX_SMALL_IMAGE_PIXELS,
    });
    this.#maxPixels = maxPixels;
  }

  /** Threads that are running. */
  get numThreads(): number {
    return this.#workers.numWorkers;
  }

  decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels> {
    const options = { signal, transfer: [file.buffer], work: numPixelsOf(file) };
    return this.#workers.call("decode", { file, maxPixels: this.#maxPixels }, options);
  }

  make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels> {
    // The same memory where the mask is not applied yet.
    const memory = new Set([cutOut.original, cutOut.masked.pixels].map(({ data }) => data.buffer));
    return this.#workers.call("make", cutOut, { signal, transfer: [...memory] });
  }

  /** Uses all threads that smaller images do not need. */
  async encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const work = cutOut.pixels.width * cutOut.pixels.height;
    const most = Math.max(1, Math.floor(work / MIN_STRIPE_PIXELS));
    const least = Math.ceil(work / MAX_STRIPE_PIXELS);
    const stripes = splitCutOut(cutOut, Math.max(least, Math.min(this.#maxThreads, most)));
    const packed = await Promise.all(stripes.map((stripe) => {
      const transfer = [stripe.rows.data.buffer];
      return this.#workers.call("pack", stripe, { signal, transfer, work });
    }));
    return joinCutOut(cutOut, packed);
  }

  /** Ends the threads. */
  close(): void {
    this.#workers.close();
  }
}

function startWorker(): WorkerRpc<CodecThread> {
  const worker = new Worker(new URL("./codec_thread.ts", import.meta.url), { type: "module" });
  return new WorkerRpc(worker, "thread that decodes and encodes images");
}
