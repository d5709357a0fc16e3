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
