/**
 * The thread that decodes images and prepares them, so that the one that owns the device is not blocked.
 *
 * @module
 */
import "../../onnx/runtime/no_location.ts";
import { onWhite } from "../../media/alpha.ts";
import { decodeImage } from "../../media/image.ts";
import type { Pixels } from "../../media/pixels.ts";
import { serveFunctions } from "../worker_rpc_server.ts";
import type { ImageReader, NormalizedImage } from "./image_reader.ts";

/** A file of any supported format. */
interface ImageFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Largest width × height that is decoded; the decoder's own limit if absent. */
  readonly maxPixels: number | undefined;
}

let reader: ImageReader | undefined;

const functions = {
  /** Loads a folder's image processor, for `prepare`; pixels alone need no transformers.js. */
  async load(folder: string): Promise<void> {
    const { ImageReader } = await import("./image_reader.ts");
    reader = await ImageReader.load(folder);
  },
  async prepare(file: ImageFile): Promise<NormalizedImage> {
    return await reader!.prepare(await decodeImage(file.bytes, file));
  },
  /** The pixels on white ground. */
  async decode(file: ImageFile): Promise<Pixels> {
    return onWhite(await decodeImage(file.bytes, file));
  },
};

export type ImageThread = typeof functions;

serveFunctions(functions);
