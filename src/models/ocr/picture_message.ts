/**
 * What crosses between a model and the thread that decodes its pictures: plain data.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";

/** A picture as a model's first graph takes it. */
export interface PreparedPicture {
  /** f32, of these dims. */
  readonly data: Float32Array<ArrayBuffer>;
  /** `[1, channels, height, width]`. */
  readonly dims: readonly number[];
  /** Of the picture itself. */
  readonly width: number;
  readonly height: number;
}

/** A picture as it comes. */
export interface PictureFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Largest width × height that is decoded; the decoder's own limit if absent. */
  readonly maxPixels: number | undefined;
}

/** To the thread: the model's folder at first, then one picture at a time. */
export type ToPictureThread =
  | { readonly type: "load"; readonly folder: string }
  /** A file of any format that is known, to be prepared as the folder's image processor does it. */
  | ({ readonly type: "prepare" } & PictureFile)
  /** A file whose pixels are wanted, on white ground. */
  | ({ readonly type: "decode" } & PictureFile);

/** From the thread, one answer to each message, unless it refuses or fails. */
export type FromPictureThread =
  | { readonly type: "loaded" }
  | { readonly type: "prepared"; readonly picture: PreparedPicture }
  | { readonly type: "decoded"; readonly pixels: Pixels };
