/**
 * Decodes image files to pixels, and encodes pixels with a mask to files.
 *
 * @module
 */
import { decodeImage } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import {
  type CutOut,
  joinCutOut,
  makeWholeCutOut,
  packCutOutStripe,
  splitCutOut,
  type WholeCutOut,
} from "./cut_out.ts";

/** Takes ownership of its arguments: their memory may be transferred or changed. */
export interface Codec {
  /**
   * Decodes a file, as `decodeImage` does with `keepsAlpha`.
   *
   * @throws {HearthError} `invalid_media`; the signal's reason, and then the work has stopped.
   */
  decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels>;
  /** Makes a cut-out that needs the whole image at once. @throws the signal's reason. */
  make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels>;
  /** Makes a PNG file. @throws the signal's reason. */
  encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
}

/** Works in this thread, synchronously. */
export class InlineCodec implements Codec {
  readonly #maxPixels: number;

  /** @param maxPixels largest width × height that is decoded. */
  constructor(maxPixels: number) {
    this.#maxPixels = maxPixels;
  }

  decode(file: Uint8Array<ArrayBuffer>): Promise<Pixels> {
    return decodeImage(file, { keepsAlpha: true, maxPixels: this.#maxPixels });
  }

  make(cutOut: WholeCutOut): Promise<Pixels> {
    return Promise.resolve(makeWholeCutOut(cutOut));
  }

  encode(cutOut: CutOut): Promise<Uint8Array<ArrayBuffer>> {
    const stripes = splitCutOut(cutOut, 1).map(packCutOutStripe);
    return Promise.resolve(joinCutOut(cutOut, stripes));
  }
}
