/**
 * What models of images need of a device besides sessions.
 *
 * @module
 */
import type { Mask } from "../../kernels/composite_alpha_reference.ts";
import type { MaskForm, TensorForm } from "../../kernels/image_form.ts";
import type { Pixels } from "../media/pixels.ts";
import type { Tensor } from "../onnx/ort.ts";

/** An image where the kernels can work on it. Whoever opened it closes it. */
export interface OpenImage {
  readonly pixels: Pixels;
  close(): void;
}

/** An image and how a model wants to see it. */
export interface TensorRow {
  readonly image: OpenImage;
  readonly form: TensorForm;
}

/** One of the masks of a tensor. */
export interface MaskRow {
  /** f32 `[masks, …]`, each of `form.height` rows of `form.width`. */
  readonly masks: Tensor;
  readonly index: number;
  readonly form: MaskForm;
}

/** An image that has been given a mask. */
export interface MaskedImage {
  /** RGB or RGBA. */
  readonly pixels: Pixels;
  /** What their alpha is still to be multiplied by; absent where the device has done it, and they are RGBA. */
  readonly mask?: Mask | undefined;
}

/** Work on images. */
export interface ImageKernels {
  /** Takes an image in, where it stays until it is closed. @param pixels RGB or RGBA, the caller's. */
  open(pixels: Pixels): OpenImage;
  /**
   * A model's input, f32 `[rows, 3, height, width]` or `[rows, height, width, 3]`: it stands until the next call, and is
   * not the caller's.
   *
   * @param rows at least one, their forms of one layout and size.
   */
  toTensor(rows: readonly TensorRow[]): Tensor;
  /** Gives an image a mask. Its pixels stay as they are: what the device makes of them lies elsewhere. */
  mask(image: OpenImage, mask: MaskRow): Promise<MaskedImage>;
  dispose(): void;
}
