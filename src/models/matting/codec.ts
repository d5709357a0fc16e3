/**
 * Decodes image files to pixels, and encodes pixels with a mask to files: on the calling thread or on others.
 *
 * @module
 */
import { countPixels, decodeImage, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import { WorkerPool, WorkerRpc } from "../threads/worker_pool.ts";
import {
  type CutOut,
  joinCutOut,
  makeWholeCutOut,
  packCutOutStripe,
  splitCutOut,
  type WholeCutOut,
} from "./cut_out.ts";

/** More threads would only wait for the thread that owns the device. */
const MAX_THREADS = 4;
/** Smaller stripes are not worth a thread. */
const MIN_STRIPE_PIXELS = 2 ** 18;
/** Larger stripes would delay smaller images. */
const MAX_STRIPE_PIXELS = 2 ** 22;

/** The functions that a thread offers. */
export const CODEC_FUNCTIONS = {
  decode({ file, maxPixels }: {
    readonly file: Uint8Array<ArrayBuffer>;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  }): Promise<Pixels> {
    return decodeImage(file, { keepsAlpha: true, maxPixels });
  },
  make: makeWholeCutOut,
  pack: packCutOutStripe,
};

/**
 * Runs image functions on a pool of threads. It takes ownership of its arguments: their memory may be transferred or
 * changed. All threads but one end when idle.
 */
export class Codec {
  readonly #workers: WorkerPool<typeof CODEC_FUNCTIONS>;
  readonly #maxThreads: number;
  readonly #maxPixels: number | undefined;
  readonly #inlinePixels: number;

  constructor({
    maxThreads = Math.min(MAX_THREADS, navigator.hardwareConcurrency),
    maxPixels,
    inlinePixels = -1,
  }: {
    /** Most threads; if absent, one per core but at most 4. */
    readonly maxThreads?: number | undefined;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels?: number | undefined;
    /** Images up to this width × height are handled on the calling thread; none if absent. */
    readonly inlinePixels?: number;
  } = {}) {
    this.#maxThreads = maxThreads;
    this.#maxPixels = maxPixels;
    this.#inlinePixels = inlinePixels;
    this.#workers = new WorkerPool({
      size: maxThreads,
      start: startWorker,
      maxSmall: MAX_SMALL_IMAGE_PIXELS,
    });
  }

  get numThreads(): number {
    return this.#workers.numWorkers;
  }

  /**
   * Decodes a file, as `decodeImage` does with `keepsAlpha`.
   *
   * @throws {HearthError} `invalid_media`; the signal's reason, once nothing works on the file any more.
   */
  async decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels> {
    const work = countPixels(file);
    const input = { file, maxPixels: this.#maxPixels };
    if (work <= this.#inlinePixels) return await CODEC_FUNCTIONS.decode(input);
    return await this.#workers.call("decode", input, { signal, transfer: [file.buffer], work });
  }

  /**
   * Makes a cut-out whose options need the whole image at once.
   *
   * @throws the signal's reason.
   */
  async make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels> {
    const { original, masked } = cutOut;
    if (original.width * original.height <= this.#inlinePixels) return makeWholeCutOut(cutOut);
    // The two images share memory as long as the mask is not applied.
    const memory = new Set([original, masked.pixels].map(({ data }) => data.buffer));
    return await this.#workers.call("make", cutOut, { signal, transfer: [...memory] });
  }

  /**
   * Makes a PNG file, on all threads that smaller images do not need.
   *
   * @throws the signal's reason.
   */
  async encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const work = cutOut.pixels.width * cutOut.pixels.height;
    const isInline = work <= this.#inlinePixels;
    const most = Math.max(1, Math.floor(work / MIN_STRIPE_PIXELS));
    const least = Math.ceil(work / MAX_STRIPE_PIXELS);
    const stripes = splitCutOut(cutOut, Math.max(least, Math.min(this.#maxThreads, most)));
    const packed = await Promise.all(stripes.map((stripe) => {
      if (isInline) return packCutOutStripe(stripe);
      const transfer = [stripe.rows.data.buffer];
      return this.#workers.call("pack", stripe, { signal, transfer, work });
    }));
    return joinCutOut(cutOut, packed);
  }

  close(): void {
    this.#workers.close();
  }
}

function startWorker(): WorkerRpc<typeof CODEC_FUNCTIONS> {
  const module = new URL("./codec_thread.ts", import.meta.url);
  return new WorkerRpc(module, "thread that decodes and encodes images");
}
