/**
 * The thread that decodes, resizes and normalises images, so that the one that owns the device is not blocked.
 *
 * @module
 */
import "../../onnx/runtime/no_location.ts";
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import type { ImageToPrepare, PreparedImage } from "../prepared_image.ts";
import { serveFunctions } from "../worker_rpc_server.ts";
import { VisionProcessor } from "./vision_processor.ts";

let processor: VisionProcessor | undefined;

const functions = {
  /** Loads a folder's processor. @returns the placeholder of an image in the rendered chat template. */
  async load(folder: string): Promise<string> {
    processor = await VisionProcessor.load(folder);
    return processor.placeholder;
  },
  async prepare({ bytes, maxPixels, inOnePiece = false }: ImageToPrepare & {
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  }): Promise<PreparedImage> {
    const pixels = await decodeImage(bytes, { maxPixels });
    try {
      return await processor!.prepare(pixels, { inOnePiece });
    } catch (error) {
      // Preprocessing worked at startup, so the image is the cause.
      const size = `${pixels.width} × ${pixels.height}`;
      throw new HearthError(
        "invalid_media",
        `The model does not support an image of ${size} pixels: ${(error as Error).message}`,
        { cause: error },
      );
    }
  },
};

export type VisionThread = typeof functions;

serveFunctions(functions);
