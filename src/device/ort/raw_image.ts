/**
 * Lets the image processors of transformers.js work without a canvas, with pixels equal to Pillow's.
 *
 * In browsers they resize, crop and pad with a 2-D canvas, which Deno lacks and which has filters of its own; in Node
 * with libvips, which does not widen its filters when an image shrinks. The models were trained on Pillow's output.
 *
 * @module
 */
import type { RawImage } from "@huggingface/transformers";
import { centerCrop, crop, pad, type Pixels } from "../../media/pixels.ts";
import { RESAMPLE_FILTERS } from "../../media/resample_filter.ts";
import { type ResampleFilter, resize } from "../../media/resample.ts";

/** The class as transformers.js exports it. */
type RawImageClass = typeof RawImage;

/** Replaces the canvas by Hearth's resampler, for all images of this class. */
export function replaceCanvas(RawImage: RawImageClass): void {
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
      `The image processor wants the unknown resampling filter "${resample}".`,
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

/** Makes an image for an image processor, which shares the pixels. */
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
