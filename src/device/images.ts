/**
 * Image operations of a device.
 *
 * @module
 */
import type { Mask } from "../../kernels/images/composite_alpha_reference.ts";
import type { MaskFormat, TensorFormat } from "../../kernels/images/image_format.ts";
import type { Pixels } from "../media/pixels.ts";
import type { Tensor } from "./ort/ort.ts";

/** An image in the kernels' memory. The caller that opened it closes it. */
export interface OpenImage {
  readonly pixels: Pixels;
  close(): void;
}

/** An image and the format in which a model takes it. */
export interface TensorRow {
  readonly image: OpenImage;
  readonly format: TensorFormat;
}

/** One of the masks of a tensor. */
export interface MaskRow {
  /** f32 `[masks, …]`, each of `format.height` rows of `format.width`. */
  readonly masks: Tensor;
  readonly index: number;
  readonly format: MaskFormat;
}

/** An image with a mask. */
export interface MaskedImage {
  /** RGB or RGBA. */
  readonly pixels: Pixels;
  /** Mask still to be multiplied with their alpha; absent if the device has done it, and they are RGBA. */
  readonly mask?: Mask | undefined;
}

/** Image operations. */
export interface ImageKernels {
  /** Takes an image, which stays until it is closed. @param pixels RGB or RGBA, the caller's. */
  open(pixels: Pixels): OpenImage;
  /**
   * A model's input, f32 `[rows, 3, height, width]` or `[rows, height, width, 3]`: valid until the next call, not owned
   * by the caller.
   *
   * @param rows at least one, their formats of one layout and size.
   */
  toTensor(rows: readonly TensorRow[]): Tensor;
  /** Applies a mask to an image. Its own pixels are not changed. */
  mask(image: OpenImage, mask: MaskRow): Promise<MaskedImage>;
  dispose(): void;
}
