/**
 * Images preprocessed for a vision model's encoder: plain data sent between threads.
 *
 * @module
 */
import type { PlainTensors } from "./plain_tensor.ts";

/** An image to preprocess. */
export interface ImageToPrepare {
  /** A file of any supported format. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether to disable tiling in models that also tile an image. */
  readonly inOnePiece?: boolean | undefined;
}

/** A preprocessed image. */
export interface PreparedImage {
  /** Its text in the prompt, with one image token for each of the encoder's rows. */
  readonly text: string;
  /** The encoder's inputs, by transformers.js's names. */
  readonly tensors: PlainTensors;
}

/** To the thread that prepares images: the model's folder at first, then one image at a time. */
export type ToVisionThread =
  | { readonly type: "load"; readonly folder: string }
  | ({
    readonly type: "prepare";
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  } & ImageToPrepare);

/** From that thread, one answer to each message, unless it refuses or fails. */
export type FromVisionThread =
  | { readonly type: "loaded"; readonly placeholder: string }
  | { readonly type: "prepared"; readonly image: PreparedImage };
