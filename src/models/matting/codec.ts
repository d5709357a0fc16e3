/**
 * Who turns image files into pixels, and pixels with a mask into files.
 *
 * @module
 */
import { decodeImage } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type CutOut, joinCutOut, packCutOutStripe, splitCutOut } from "./cut_out_stripe.ts";
import { makeWholeCutOut, type WholeCutOut } from "./whole_cut_out.ts";

/** What is given to it is its own: it may lose its memory, or change. */
export interface Codec {
  /**
   * Decodes a file, as `decodeImage` does with `keepsAlpha`.
   *
   * @throws {HearthError} `invalid_media`; the signal's reason, and then nothing works on it any longer.
   */
  decode(file: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Pixels>;
  /** Makes what takes all of an image at once. @throws the signal's reason. */
  make(cutOut: WholeCutOut, signal: AbortSignal): Promise<Pixels>;
  /** Makes a PNG file. @throws the signal's reason. */
  encode(cutOut: CutOut, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
}

/** Works in this thread, without a pause. */
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
