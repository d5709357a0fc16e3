/**
 * Decodes image files to pixels, and encodes pixels with a mask to files: in this thread, or in others.
 *
 * @module
 */
import { decodeImage, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import type { Pixels } from "../../media/pixels.ts";
import { WorkerPool } from "../worker_pool.ts";
import { type OutputOf, WorkerRpc } from "../worker_rpc.ts";
import {
  type CutOut,
  joinCutOut,
  makeWholeCutOut,
  packCutOutStripe,
  splitCutOut,
  type WholeCutOut,
} from "./cut_out.ts";

/** More threads would wait for the thread that owns the device. */
const MAX_THREADS = 4;
/** Smaller stripes are not worth a thread. */
const MIN_STRIPE_PIXELS = 2 ** 18;
/** Larger stripes would delay smaller images. */
const MAX_STRIPE_PIXELS = 2 ** 22;

/** What a thread does. */
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

type Call = WorkerPool<typeof CODEC_FUNCTIONS>["call"];

/** Takes ownership of its arguments: their memory may be transferred or changed. */
export class Codec {
  readonly #call: Call;
  readonly #maxThreads: number;
  readonly #maxPixels: number | undefined;

  /** @param call calls one of {@linkcode CODEC_FUNCTIONS}. */
  constructor(
    call: Call,
    { maxThreads, maxPixels }: {
      readonly maxThreads: number;
      /** Largest width × height that is decoded; the decoder's own limit if absent. */
      readonly maxPixels: number | undefined;
    },
  ) {
    this.#call = call;
    this.#maxThreads = maxThreads;
    this.#maxPixels = maxPixels;
  }

  /**
   * Decodes a file, as `decodeImage` does with `keepsAlpha`.
   *
   * @throws {HearthError} `invalid_media`; the signal's reason, once nothing works on the file any more.
   */
  decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels> {
    const options = { signal, transfer: [file.buffer], work: numPixelsOf(file) };
    return this.#call("decode", { file, maxPixels: this.#maxPixels }, options);
  }

  /** Makes a cut-out that needs the whole image at once. @throws the signal's reason. */
  make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels> {
    // The same memory where the mask is not applied yet.
    const memory = new Set([cutOut.original, cutOut.masked.pixels].map(({ data }) => data.buffer));
    return this.#call("make", cutOut, { signal, transfer: [...memory] });
  }

  /** Makes a PNG file, in all threads that smaller images do not need. @throws the signal's reason. */
  async encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const work = cutOut.pixels.width * cutOut.pixels.height;
    const most = Math.max(1, Math.floor(work / MIN_STRIPE_PIXELS));
    const least = Math.ceil(work / MAX_STRIPE_PIXELS);
    const stripes = splitCutOut(cutOut, Math.max(least, Math.min(this.#maxThreads, most)));
    const packed = await Promise.all(stripes.map((stripe) => {
      const transfer = [stripe.rows.data.buffer];
      return this.#call("pack", stripe, { signal, transfer, work });
    }));
    return joinCutOut(cutOut, packed);
  }
}

/** Works in this thread, synchronously. */
export function createInlineCodec(maxPixels: number): Codec {
  const call: Call = async (name, input) =>
    await CODEC_FUNCTIONS[name](input as never) as OutputOf<typeof CODEC_FUNCTIONS, typeof name>;
  return new Codec(call, { maxThreads: 1, maxPixels });
}

/** Threads are started on demand; all but one end when they are idle. */
export class CodecThreads extends Codec {
  readonly #workers: WorkerPool<typeof CODEC_FUNCTIONS>;

  constructor({ maxThreads = Math.min(MAX_THREADS, navigator.hardwareConcurrency), maxPixels }: {
    /** All cores if absent, at most 4: the thread that owns the device waits or works on another image. */
    readonly maxThreads?: number | undefined;
    readonly maxPixels?: number | undefined;
  } = {}) {
    const workers = new WorkerPool({
      size: maxThreads,
      start: startWorker,
      maxSmall: MAX_SMALL_IMAGE_PIXELS,
    });
    super((name, input, options) => workers.call(name, input, options), { maxThreads, maxPixels });
    this.#workers = workers;
  }

  /** Threads that are running. */
  get numThreads(): number {
    return this.#workers.numWorkers;
  }

  /** Ends the threads. */
  close(): void {
    this.#workers.close();
  }
}

function startWorker(): WorkerRpc<typeof CODEC_FUNCTIONS> {
  const worker = new Worker(new URL("./codec_thread.ts", import.meta.url), { type: "module" });
  return new WorkerRpc(worker, "thread that decodes and encodes images");
}
