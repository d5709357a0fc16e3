/**
 * Decodes image files, and makes and encodes the results of background removal, on the calling thread or on others. A
 * result is the subject alone, perhaps cropped or on a background colour, or the mask. It is made and encoded in
 * stripes, which several threads compress. Only refining the rim and cropping to the subject need the whole image.
 *
 * @module
 */
import { countPixels, decodeImage, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { type Channels, crop, type Pixels } from "../../media/pixels.ts";
import { WorkerPool, WorkerRpc } from "../threads/worker_pool.ts";
import {
  compositeAlpha,
  compositeBands,
  type RowsMask,
} from "../../../kernels/images/image_reference.ts";
import type { MaskedImage } from "../../device/media.ts";
import { joinPng, packPngStripe, type PngStripe, splitBands } from "../../media/image/png.ts";
import type { MatteOptions } from "../task.ts";
import { refineCutOut } from "./refine_cut_out.ts";

/** Default for the maximum number of threads. More threads would only wait for the thread that owns the device. */
const MAX_THREADS = 4;
/** Minimum number of pixels of a stripe, as smaller stripes are not worth a thread. */
const MIN_STRIPE_PIXELS = 2 ** 18;
/** Maximum number of pixels of a stripe, as larger stripes would delay smaller images. */
const MAX_STRIPE_PIXELS = 2 ** 22;

/** The functions that the codec's threads serve. */
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
 * Runs image functions on a pool of threads. Its methods own their arguments, whose memory may be transferred or
 * changed. All threads but one end when they are idle.
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
    /** Maximum number of threads; if absent, one per logical core, but at most 4. */
    readonly maxThreads?: number | undefined;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels?: number | undefined;
    /** Images up to this width × height are processed on the calling thread; none if absent. */
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
   * Decodes a file, like `decodeImage` with `keepsAlpha`.
   *
   * @throws {HearthError} `invalid_media` when the file cannot be decoded.
   * @throws the signal's reason, when work on the file has ended.
   */
  async decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels> {
    const work = countPixels(file);
    const input = { file, maxPixels: this.#maxPixels };
    if (work <= this.#inlinePixels) return await CODEC_FUNCTIONS.decode(input);
    return await this.#workers.call("decode", input, { signal, transfer: [file.buffer], work });
  }

  /**
   * Makes a result whose options need the whole image.
   *
   * @throws the signal's reason.
   */
  async make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels> {
    const { original, masked } = cutOut;
    if (original.width * original.height <= this.#inlinePixels) return makeWholeCutOut(cutOut);
    // Before the mask is applied, the two images may share memory.
    const memory = new Set([original, masked.pixels].map(({ data }) => data.buffer));
    return await this.#workers.call("make", cutOut, { signal, transfer: [...memory] });
  }

  /**
   * Makes a PNG file. Large images are divided into stripes for several threads.
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

/** Least alpha, 0 to 255, of a pixel that counts as part of the subject when the image is cropped. */
const LEAST_ALPHA = 8;

/**
 * Makes the result for the options.
 *
 * @param pixels RGBA; changed if a background is composited.
 * @returns RGBA, or grey for a mask. An image without a subject is not cropped.
 */
export function makeCutOut(pixels: Pixels, options: MatteOptions): Pixels {
  const { background, maskOnly, crop: isCropped } = options;
  const box = isCropped ? findSubject(pixels) : undefined;
  const kept = box === undefined ? pixels : crop(pixels, box);
  if (maskOnly) return extractAlpha(kept);
  if (background !== undefined) layBehind(kept, background);
  return kept;
}

/** Finds the smallest box around the subject; `undefined` if there is none. Most pixels inside it are never read. */
function findSubject(
  { width, height, data }: Pixels,
): [left: number, top: number, right: number, bottom: number] | undefined {
  const isSubject = (x: number, y: number) => data[4 * (y * width + x) + 3]! >= LEAST_ALPHA;
  /** Finds the first column of the subject from `from` to before `to`; `to` if there is none. */
  const find = (y: number, from: number, to: number) => {
    const step = from < to ? 1 : -1;
    let x = from;
    while (x !== to && !isSubject(x, y)) x += step;
    return x;
  };
  const isEmpty = (y: number) => find(y, 0, width) === width;
  let [top, bottom] = [0, height];
  while (top < height && isEmpty(top)) top++;
  if (top === height) return undefined;
  while (isEmpty(bottom - 1)) bottom--;
  let [left, last] = [width, -1];
  for (let y = top; y < bottom; y++) {
    left = find(y, 0, left);
    last = find(y, width - 1, last);
  }
  return [left, top, last + 1, bottom];
}

function extractAlpha({ width, height, data }: Pixels): Pixels {
  const alpha = new Uint8Array(width * height);
  for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3]!;
  return { width, height, channels: 1, data: alpha };
}

/**
 * Composites a background behind the image, in place (Porter and Duff 1984, "over"). The result is at least as opaque
 * as the background.
 */
function layBehind({ data }: Pixels, background: NonNullable<MatteOptions["background"]>): void {
  const behind = (background[3] ?? 255) / 255;
  for (let at = 0; at < data.length; at += 4) {
    const alpha = data[at + 3]!;
    if (alpha === 255) continue;
    const rest = behind * (255 - alpha);
    const total = alpha + rest;
    data[at + 3] = Math.round(total);
    for (let channel = 0; channel < 3; channel++) {
      const sum = data[at + channel]! * alpha + background[channel]! * rest;
      data[at + channel] = total === 0 ? 0 : Math.round(sum / total);
    }
  }
}

type PixelOptions = Pick<MatteOptions, "background" | "maskOnly">;

/** An image with its mask, and the options for the result that need only a part of the image at a time. */
export interface CutOut extends MaskedImage {
  readonly options: PixelOptions;
  /** The original file's ICC profile, which is kept. */
  readonly colorProfile?: Uint8Array | undefined;
}

/** Consecutive rows of a cut-out. */
interface CutOutStripe {
  readonly rows: Pixels;
  readonly mask: RowsMask | undefined;
  readonly options: PixelOptions;
}

/**
 * Divides an image into stripes of about the same height.
 *
 * @returns stripes that share no memory; the first one keeps the memory of the image.
 */
function splitCutOut(
  { pixels, mask, options }: CutOut,
  numStripes: number,
): CutOutStripe[] {
  const { width, height, channels, data } = pixels;
  const stripeRows = Math.ceil(height / numStripes);
  return Array.from({ length: Math.ceil(height / stripeRows) }, (_, stripe) => {
    const firstRow = stripe * stripeRows;
    const numRows = Math.min(stripeRows, height - firstRow);
    const [start, end] = [firstRow, firstRow + numRows].map((row) => row * width * channels);
    return {
      rows: {
        ...pixels,
        height: numRows,
        data: stripe === 0 ? data.subarray(0, end) : data.slice(start, end),
      },
      mask: mask && { ...mask, firstRow, height },
      options,
    };
  });
}

/** Joins compressed stripes into a PNG file. */
function joinCutOut(cutOut: CutOut, stripes: readonly PngStripe[]): Uint8Array<ArrayBuffer> {
  const { pixels: { width, height }, mask, options, colorProfile } = cutOut;
  const channels = countPackedChannels({ channels: cutOut.pixels.channels, mask, options });
  return joinPng({ width, height, channels }, stripes, channels < 3 ? undefined : colorProfile);
}

/** Compresses a stripe. Rows with alpha and without a mask may be changed. */
function packCutOutStripe({ rows, mask, options }: CutOutStripe): PngStripe {
  const { width, channels } = rows;
  const bands = mask === undefined ? splitBands(rows) : compositeBands(rows, mask);
  const isFinal = options.background === undefined && !options.maskOnly;
  return packPngStripe(
    { width, channels: countPackedChannels({ channels, mask, options }) },
    isFinal ? bands : finish(bands, width, options),
  );
}

function countPackedChannels(
  { channels, mask, options }: Pick<Pixels, "channels"> & Omit<CutOut, "pixels">,
): Channels {
  if (options.maskOnly) return 1;
  return mask === undefined ? channels : 4;
}

function* finish(
  bands: Iterable<Uint8Array<ArrayBuffer>>,
  width: number,
  options: PixelOptions,
): Generator<Uint8Array<ArrayBuffer>> {
  for (const data of bands) {
    const height = data.length / (4 * width);
    yield makeCutOut({ width, height, channels: 4, data }, options).data;
  }
}

/** An image with its mask, and options for the result that need the whole image. */
interface WholeCutOut {
  /** The image as it was received. */
  readonly original: Pixels;
  /** The image with its mask; it may share the original's memory. */
  readonly masked: MaskedImage;
  /** Longer side of the mask. */
  readonly maskSide: number;
  readonly options: MatteOptions;
}

/** Makes the result for options that need the whole image. Both images may be changed. */
export function makeWholeCutOut(
  { original, masked: { pixels, mask }, maskSide, options }: WholeCutOut,
): Pixels {
  const isOverwritten = options.refine === true && pixels.channels === 4 && mask !== undefined;
  const own = isOverwritten ? { ...pixels, data: pixels.data.slice() } : pixels;
  const cutOut = mask === undefined ? own : compositeAlpha(own, mask);
  if (options.refine) refineCutOut(cutOut, { maskSide, original });
  return makeCutOut(cutOut, options);
}
