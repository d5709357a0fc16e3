/**
 * Messages between a thread that decodes and encodes images and the one that owns the device.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import type { PngStripe } from "../../media/png.ts";
import type { CutOutStripe, WholeCutOut } from "./cut_out.ts";

/** Requests to the thread; memory is transferred. */
export type ToCodecThread =
  | {
    readonly type: "decode";
    readonly file: Uint8Array<ArrayBuffer>;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  }
  | { readonly type: "make"; readonly cutOut: WholeCutOut }
  | { readonly type: "pack"; readonly stripe: CutOutStripe };

/** Its answers; memory is transferred back. */
export type FromCodecThread =
  | { readonly type: "decoded"; readonly pixels: Pixels }
  | { readonly type: "made"; readonly pixels: Pixels }
  | { readonly type: "packed"; readonly stripe: PngStripe };
