/**
 * Messages between a model and the thread that decodes its images: plain data.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";

/** A preprocessed image for a model's first graph. */
export interface NormalizedImage {
  /** f32, of these dims. */
  readonly data: Float32Array<ArrayBuffer>;
  /** `[1, channels, height, width]`. */
  readonly dims: readonly number[];
  /** Size of the image itself. */
  readonly width: number;
  readonly height: number;
}

/** An image to preprocess. */
export interface ImageFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Largest width × height that is decoded; the decoder's own limit if absent. */
  readonly maxPixels: number | undefined;
}

/** To the thread: the model's folder at first, then one image at a time. */
export type ToImageThread =
  | { readonly type: "load"; readonly folder: string }
  /** A file of any supported format, to be preprocessed by the folder's image processor. */
  | ({ readonly type: "prepare" } & ImageFile)
  /** A file whose pixels are wanted, on white ground. */
  | ({ readonly type: "decode" } & ImageFile);

/** From the thread, one answer to each message, unless it refuses or fails. */
export type FromImageThread =
  | { readonly type: "loaded" }
  | { readonly type: "prepared"; readonly image: NormalizedImage }
  | { readonly type: "decoded"; readonly pixels: Pixels };
