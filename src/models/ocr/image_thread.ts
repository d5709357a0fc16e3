/**
 * The thread that decodes images and prepares them, so that the one that owns the device is not blocked.
 *
 * @module
 */
import "../../onnx/runtime/no_location.ts";
import { decodeImage } from "../../media/image.ts";
import { onWhite } from "../../media/alpha.ts";
import type { Pixels } from "../../media/pixels.ts";
import { serveRequests } from "../worker_rpc_server.ts";
import type { ImageReader, NormalizedImage } from "./image_reader.ts";

/** The model's folder at first, then one image at a time. */
export type ImageRequest =
  | { readonly type: "load"; readonly folder: string }
  | {
    /** Whether the folder's image processor runs, or the pixels are wanted, on white ground. */
    readonly type: "prepare" | "decode";
    /** A file of any supported format. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  };

/** Responses by the type of the request. */
export interface ImageResponses {
  readonly load: { readonly type: "loaded" };
  readonly prepare: NormalizedImage;
  readonly decode: Pixels;
}

let reader: ImageReader | undefined;

serveRequests<ImageRequest, ImageResponses[ImageRequest["type"]]>(async (request) => {
  if (request.type === "load") {
    // Without a folder only pixels are wanted, which need no transformers.js.
    const { ImageReader } = await import("./image_reader.ts");
    reader = await ImageReader.load(request.folder);
    return { message: { type: "loaded" } };
  }
  const pixels = await decodeImage(request.bytes, request);
  const message = request.type === "prepare" ? await reader!.prepare(pixels) : onWhite(pixels);
  return { message, transfer: [message.data.buffer] };
});
