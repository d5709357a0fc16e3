/**
 * Cut-outs that cannot be made in stripes: refining the rim and cropping to the subject need the whole image.
 *
 * @module
 */
import { compositeAlpha } from "../../../kernels/composite_alpha_reference.ts";
import type { MaskedImage } from "../../backend/images.ts";
import type { Pixels } from "../../media/pixels.ts";
import type { MatteOptions } from "../task.ts";
import { makeCutOut } from "./cut_out.ts";
import { refineCutOut } from "./refined_cut_out.ts";

/** An image and its options. */
export interface WholeCutOut {
  /** As it was sent. */
  readonly original: Pixels;
  /** With its mask; it may share the original's memory. */
  readonly masked: MaskedImage;
  /** Longer side of the mask. */
  readonly maskSide: number;
  readonly options: MatteOptions;
}

/** The result by the options; both images may be changed. */
export function makeWholeCutOut(
  { original, masked: { pixels, mask }, maskSide, options }: WholeCutOut,
): Pixels {
  const isOverwritten = options.refine === true && pixels.channels === 4 && mask !== undefined;
  const own = isOverwritten ? { ...pixels, data: pixels.data.slice() } : pixels;
  const cutOut = mask === undefined ? own : compositeAlpha(own, mask);
  if (options.refine) refineCutOut(cutOut, { maskSide, original });
  return makeCutOut(cutOut, options);
}
