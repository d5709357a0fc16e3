/**
 * What models of pictures need of a device besides sessions.
 *
 * @module
 */
import type { Mask } from "../../kernels/composite_alpha_reference.ts";
import type { MaskForm, TensorForm } from "../../kernels/picture_form.ts";
import type { Pixels } from "../media/pixels.ts";
import type { Tensor } from "../onnx/ort.ts";

/** A picture where the kernels can work on it. Whoever opened it closes it. */
export interface OpenPicture {
  readonly pixels: Pixels;
  close(): void;
}

/** A picture and how a model wants to see it. */
export interface TensorRow {
  readonly picture: OpenPicture;
  readonly form: TensorForm;
}

/** One of the masks of a tensor. */
export interface MaskRow {
  /** f32 `[masks, …]`, each of `form.height` rows of `form.width`. */
  readonly masks: Tensor;
  readonly index: number;
  readonly form: MaskForm;
}

/** A picture that has been given a mask. */
export interface MaskedPicture {
  /** RGB or RGBA. */
  readonly pixels: Pixels;
  /** What their alpha is still to be multiplied by; absent where the device has done it, and they are RGBA. */
  readonly mask?: Mask | undefined;
}

/** Work on pictures. */
export interface ImageKernels {
  /** Takes a picture in, where it stays until it is closed. @param pixels RGB or RGBA, the caller's. */
  open(pixels: Pixels): OpenPicture;
  /**
   * A model's input, f32 `[rows, 3, height, width]` or `[rows, height, width, 3]`: it stands until the next call, and is
   * not the caller's.
   *
   * @param rows at least one, their forms of one layout and size.
   */
  toTensor(rows: readonly TensorRow[]): Tensor;
  /** Gives a picture a mask. Its pixels stay as they are: what the device makes of them lies elsewhere. */
  mask(picture: OpenPicture, mask: MaskRow): Promise<MaskedPicture>;
  dispose(): void;
}
