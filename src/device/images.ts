/**
 * Image operations of a device.
 *
 * @module
 */
import type { Mask } from "../../kernels/images/composite_alpha_reference.ts";
import type { MaskFormat, TensorFormat } from "../../kernels/images/image_format.ts";
import type { Pixels } from "../media/pixels.ts";
import type { Tensor } from "./ort/ort.ts";

/** An image in the kernels' memory. The caller that opened it must close it. */
export interface OpenImage {
  readonly pixels: Pixels;
  close(): void;
}

/** An image, and the format in which a model takes it. */
export interface TensorRow {
  readonly image: OpenImage;
  readonly format: TensorFormat;
}

/** One of the masks in a tensor. */
export interface MaskRow {
  /** Masks: f32 `[masks, …]`, each of `format.height` rows of `format.width`. */
  readonly masks: Tensor;
  readonly index: number;
  readonly format: MaskFormat;
}

/** An image and its mask. */
export interface MaskedImage {
  /** RGB or RGBA. */
  readonly pixels: Pixels;
  /**
   * Mask that must still be multiplied with the pixels' alpha; absent if the device has done that, in which case they
   * are RGBA.
   */
  readonly mask?: Mask | undefined;
}

/** Image operations. */
export interface ImageKernels {
  /** Opens an image, which stays until it is closed. @param pixels RGB or RGBA, owned by the caller. */
  open(pixels: Pixels): OpenImage;
  /**
   * Makes a model's input, f32 `[rows, 3, height, width]` or `[rows, height, width, 3]`. It is valid until the next
   * call, and not owned by the caller.
   *
   * @param rows at least one; their formats have the same layout and size.
   */
  toTensor(rows: readonly TensorRow[]): Tensor;
  /** Applies a mask to an image, without changing the image's own pixels. */
  mask(image: OpenImage, mask: MaskRow): Promise<MaskedImage>;
  dispose(): void;
}
