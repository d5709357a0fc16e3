/**
 * Encodes an image with its mask, whole or in stripes that several threads compress.
 *
 * @module
 */
import { compositeBands, type RowsMask } from "../../../kernels/composite_alpha_reference.ts";
import type { MaskedImage } from "../../backend/images.ts";
import type { Channels, Pixels } from "../../media/pixels.ts";
import { bandsOf, joinPng, packPngStripe, type PngStripe } from "../../media/png.ts";
import type { MatteOptions } from "../task.ts";
import { makeCutOut } from "./cut_out.ts";

/** Per-pixel options. */
type PixelOptions = Pick<MatteOptions, "background" | "maskOnly">;

/** An image and its options. */
export interface CutOut extends MaskedImage {
  readonly options: PixelOptions;
}

/** Some of its rows. */
export interface CutOutStripe {
  readonly rows: Pixels;
  readonly mask: RowsMask | undefined;
  readonly options: PixelOptions;
}

/**
 * Divides an image into stripes of about the same height.
 *
 * @returns stripes that share no memory; the first has the image's own.
 */
export function splitCutOut(
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

/** The file of an image from its compressed stripes. */
export function joinCutOut(cutOut: CutOut, stripes: readonly PngStripe[]): Uint8Array<ArrayBuffer> {
  const { pixels: { width, height, channels }, mask, options } = cutOut;
  const rows = { channels, mask, options };
  return joinPng({ width, height, channels: packedChannels(rows) }, stripes);
}

/** Compresses a stripe; rows that have alpha and no mask may be changed. */
export function packCutOutStripe({ rows, mask, options }: CutOutStripe): PngStripe {
  const { width, channels } = rows;
  const bands = mask === undefined ? bandsOf(rows) : compositeBands(rows, mask);
  const isFinal = options.background === undefined && !options.maskOnly;
  return packPngStripe(
    { width, channels: packedChannels({ channels, mask, options }) },
    isFinal ? bands : finish(bands, width, options),
  );
}

function packedChannels(
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
