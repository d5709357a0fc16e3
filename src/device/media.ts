/**
 * Operations of a device on images and recordings before a model runs, and on the model's output.
 *
 * @module
 */
import type { Mask, MaskFormat, TensorFormat } from "../../kernels/images/image_reference.ts";
import type { Pixels } from "../media/pixels.ts";
import type { Tensor } from "./ort/ort.ts";
import type { LogMelRow, LogMelSpec } from "../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule, TokenRulesOptions } from "../../kernels/sample/sample_row.ts";

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
   * Mask that must still be multiplied with the pixels' alpha; absent if the device has already done so. The pixels are
   * then RGBA.
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

const CHANNELS = 3;

/** Number of elements of one image. */
export function countElementsPerRow([row]: readonly TensorRow[]): number {
  const { width, height } = row!.format;
  return CHANNELS * width * height;
}

/** Dimensions of the whole tensor. */
export function computeTensorDims(rows: readonly TensorRow[]): number[] {
  const { layout, width, height } = rows[0]!.format;
  const numRows = rows.length;
  return layout === "nchw"
    ? [numRows, CHANNELS, height, width]
    : [numRows, height, width, CHANNELS];
}

/** Parameters of {@linkcode SpeechKernels}. */
export interface SpeechOptions {
  readonly spec: LogMelSpec;
  readonly rules: TokenRulesOptions;
  /** Data type of the encoder's input. */
  readonly featuresDtype: "float32" | "float16";
  /** Data type of the decoder's logits. */
  readonly logitsDtype: "float32" | "float16";
  /** Maximum number of windows in one call. */
  readonly maxRows: number;
  /** Maximum number of recordings whose loudness is kept at once. */
  readonly maxRecordings: number;
}

/** Operations on windows of recordings. Each window is a row. */
export interface SpeechKernels {
  /** Resets a recording's loudness, before another recording gets its index. */
  forget(recording: number): void;
  /** Measures the loudness of the recordings that the rows belong to; at most `maxRows` rows per call. */
  measure(rows: readonly LogMelRow[]): void;
  /**
   * Computes the encoder's input `[rows, mels, frames]`. It is valid until the next call, and not owned by the caller.
   */
  features(rows: readonly LogMelRow[]): Tensor;
  /**
   * Restricts logits `[rows, 1, vocabSize]`, in place, to the tokens that each row's rule allows. Rows without a rule
   * are unchanged.
   */
  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void;
  dispose(): void;
}
