/**
 * A thread that decodes and encodes images, so that the one that owns the device is not blocked.
 *
 * @module
 */
import { decodeImage } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import { serveFunctions } from "../worker_rpc_server.ts";
import { makeWholeCutOut, packCutOutStripe } from "./cut_out.ts";

const functions = {
  decode({ file, maxPixels }: {
    readonly file: Uint8Array<ArrayBuffer>;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  }): Promise<Pixels> {
    return decodeImage(file, { keepsAlpha: true, maxPixels });
  },
  make: makeWholeCutOut,
  pack: packCutOutStripe,
};

export type CodecThread = typeof functions;

serveFunctions(functions);
