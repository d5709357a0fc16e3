/**
 * Makes transformers.js use Hearth's ONNX Runtime and image resampler. Hearth uses the processors, tokenizers and
 * feature extractors of transformers.js, and opens models itself.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise brings its
 * own. Its image processors resize, crop and pad with a 2-D canvas in browsers, which Deno lacks and which has filters
 * of its own. In Node they use libvips, which does not widen its filters when an image shrinks. The models were trained
 * on Pillow's output, and Hearth's resampler gives the same pixels.
 *
 * @module
 */
import "./no_location.ts";
import { openSession, Tensor } from "./ort.ts";
import { openTensorOp } from "./tensor_ops.ts";
import type { RawImage } from "@huggingface/transformers";
import { centerCrop, crop, pad, type Pixels } from "../../media/pixels.ts";
import { RESAMPLE_FILTERS } from "../../media/resample_filter.ts";
import { type ResampleFilter, resize } from "../../media/resample.ts";

/** transformers.js, using Hearth's ONNX Runtime. */
export type Transformers = typeof import("@huggingface/transformers");

let loaded: Promise<Transformers> | undefined;

/** Imports transformers.js with Hearth's runtime. It only loads from local folders. */
export function loadTransformers({ modelsFolder }: {
  /** Parent folder of the models' folders. */
  readonly modelsFolder: string;
}): Promise<Transformers> {
  loaded ??= hook();
  return loaded.then((transformers) => {
    transformers.env.localModelPath = modelsFolder;
    return transformers;
  });
}

async function hook(): Promise<Transformers> {
  Reflect.set(globalThis, Symbol.for("onnxruntime"), {
    Tensor,
    env: {},
    InferenceSession: { create: createSession },
  });
  const transformers = await import("@huggingface/transformers");
  replaceCanvas(transformers.RawImage);
  Object.assign(transformers.env, {
    useWasmCache: false,
    allowLocalModels: true,
    allowRemoteModels: false,
    // Errors are thrown too, and the library's log would print all elements of all inputs.
    logLevel: transformers.LogLevel.NONE,
  });
  return transformers;
}

/**
 * Replaces `InferenceSession.create`, which transformers.js calls with the bytes of an operator. Models are refused.
 */
async function createSession(model: string | Uint8Array): Promise<unknown> {
  if (typeof model !== "string") return await openTensorOp(model) ?? await openSession(model);
  throw new Error(`${model}: transformers.js cannot open models here.`);
}

/** The class as transformers.js exports it. */
type RawImageClass = typeof RawImage;

/** Replaces the canvas by Hearth's resampler, for all images of this class. */
function replaceCanvas(RawImage: RawImageClass): void {
  const method = <Args extends unknown[]>(change: (pixels: Pixels, ...args: Args) => Pixels) =>
    function (this: RawImage, ...args: Args): Promise<RawImage> {
      return Promise.try(() => toRawImage(RawImage, change(toPixels(this), ...args)));
    };
  Object.assign(RawImage.prototype, {
    resize: method(resizeTo),
    pad: method(padBy),
    crop: method(cropTo),
    center_crop: method((pixels, width: number, height: number) =>
      centerCrop(pixels, { width, height })
    ),
  });
}

/** Resizes an image. A side that is absent or −1 follows from the proportions. */
function resizeTo(
  pixels: Pixels,
  wantedWidth: number | null | undefined,
  wantedHeight: number | null | undefined,
  { resample = 2 }: { resample?: number | string } = {},
): Pixels {
  const givenWidth = wantedWidth === -1 ? undefined : wantedWidth ?? undefined;
  const givenHeight = wantedHeight === -1 ? undefined : wantedHeight ?? undefined;
  const { width, height } = pixels;
  return resize(pixels, {
    width: toSize(givenWidth ?? width * (givenHeight ?? height) / height),
    height: toSize(givenHeight ?? height * (givenWidth ?? width) / width),
    filter: toFilter(resample),
  });
}

function toSize(size: number): number {
  return Math.max(1, Math.floor(size));
}

function toFilter(resample: number | string): ResampleFilter {
  const filter = RESAMPLE_FILTERS.find((name, index) => name === resample || index === resample);
  if (filter === undefined) {
    throw new Error(
      `The image processor asks for the unknown resampling filter "${resample}".`,
    );
  }
  return filter;
}

/** Pads an image. Sizes below 0 count as 0. */
function padBy(
  pixels: Pixels,
  sizes: [left: number, right: number, top: number, bottom: number],
): Pixels {
  const [left, right, top, bottom] = sizes.map((size) => Math.max(0, size));
  return pad(pixels, { left: left!, right: right!, top: top!, bottom: bottom! });
}

/** Crops an image, including the last column and row. */
function cropTo(
  pixels: Pixels,
  [left, top, lastColumn, lastRow]: [
    left: number,
    top: number,
    lastColumn: number,
    lastRow: number,
  ],
): Pixels {
  const right = Math.min(pixels.width, lastColumn + 1);
  const bottom = Math.min(pixels.height, lastRow + 1);
  return crop(pixels, [Math.max(0, left), Math.max(0, top), right, bottom]);
}

/** Makes an image for an image processor. It shares the pixels with the given image. */
export function toRawImage(
  RawImage: RawImageClass,
  { data, width, height, channels }: Pixels,
): RawImage {
  const { buffer, byteOffset, length } = data;
  return new RawImage(new Uint8ClampedArray(buffer, byteOffset, length), width, height, channels);
}

function toPixels({ data, width, height, channels }: RawImage): Pixels {
  const bytes = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.length);
  return { width, height, channels, data: bytes };
}
