/**
 * The thread that decodes, resizes and normalises images, so that the one that owns the device is not blocked.
 *
 * @module
 */
import "../../onnx/runtime/no_location.ts";
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import { serveRequests } from "../worker_rpc_server.ts";
import type { FromVisionThread, PreparedImage, ToVisionThread } from "../prepared_image.ts";
import { VisionProcessor } from "./vision_processor.ts";

let processor: VisionProcessor | undefined;

serveRequests<ToVisionThread, FromVisionThread>(async (question) => {
  switch (question.type) {
    case "load": {
      processor = await VisionProcessor.load(question.folder);
      return { message: { type: "loaded", placeholder: processor.placeholder } };
    }
    case "prepare": {
      const image = await prepare(question);
      return { message: { type: "prepared", image }, transfer: buffersOf(image) };
    }
  }
});

async function prepare(
  { bytes, maxPixels, inOnePiece = false }: Extract<ToVisionThread, { type: "prepare" }>,
): Promise<PreparedImage> {
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
}

function buffersOf({ tensors }: PreparedImage): ArrayBuffer[] {
  return [...new Set(Object.values(tensors).map(({ data }) => data.buffer as ArrayBuffer))];
}
