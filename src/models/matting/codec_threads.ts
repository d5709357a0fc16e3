/**
 * The calling side of the threads that decode and encode images.
 *
 * @module
 */
import { MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type AskOptions, type WorkerFailure, WorkerPool } from "../worker_pool.ts";
import { WorkerRpc } from "../worker_rpc.ts";
import type { Codec } from "./codec.ts";
import type { FromCodecThread, ToCodecThread } from "./codec_message.ts";
import {
  type CutOut,
  type CutOutStripe,
  joinCutOut,
  splitCutOut,
  type WholeCutOut,
} from "./cut_out.ts";
import type { PngStripe } from "../../media/png.ts";

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
  readonly #workers: WorkerPool<ToCodecThread, FromCodecThread>;
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

  async decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels> {
    const question = { type: "decode", file, maxPixels: this.#maxPixels } as const;
    const answer = await this.#ask(question, [file.buffer], { signal, work: numPixelsOf(file) });
    if (answer.type === "decoded") return answer.pixels;
    throw unexpected(answer);
  }

  async make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels> {
    const memory = [cutOut.original, cutOut.masked.pixels].map(({ data }) => data.buffer);
    const answer = await this.#ask({ type: "make", cutOut }, memory, { signal });
    if (answer.type === "made") return answer.pixels;
    throw unexpected(answer);
  }

  /** Uses all threads that smaller images do not need. */
  async encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const work = cutOut.pixels.width * cutOut.pixels.height;
    const most = Math.max(1, Math.floor(work / MIN_STRIPE_PIXELS));
    const least = Math.ceil(work / MAX_STRIPE_PIXELS);
    const stripes = splitCutOut(cutOut, Math.max(least, Math.min(this.#maxThreads, most)));
    const packed = await Promise.all(stripes.map((stripe) => this.#pack(stripe, { signal, work })));
    return joinCutOut(cutOut, packed);
  }

  /** Ends the threads. */
  close(): void {
    this.#workers.close();
  }

  async #pack(stripe: CutOutStripe, options: AskOptions): Promise<PngStripe> {
    const answer = await this.#ask({ type: "pack", stripe }, [stripe.rows.data.buffer], options);
    if (answer.type === "packed") return answer.stripe;
    throw unexpected(answer);
  }

  /** @param memory memory transferred to the thread. */
  #ask(
    question: ToCodecThread,
    memory: readonly ArrayBuffer[],
    { signal, work }: AskOptions,
  ): Promise<FromCodecThread> {
    return this.#workers.ask(question, { signal, transfer: [...new Set(memory)], work });
  }
}

function startWorker(): WorkerRpc<ToCodecThread, FromCodecThread | WorkerFailure> {
  const worker = new Worker(new URL("./codec_thread.ts", import.meta.url), { type: "module" });
  return new WorkerRpc(worker, "thread that decodes and encodes images");
}

function unexpected({ type }: FromCodecThread): Error {
  return new Error(`The thread that decodes and encodes images answered "${type}".`);
}
