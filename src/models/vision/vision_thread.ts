/**
 * The thread that decodes, resizes and normalises pictures, so that the one that owns the device goes on meanwhile.
 *
 * @module
 */
import "../../onnx/no_location.ts";
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import type { FromVisionThread, PreparedPicture, ToVisionThread } from "../prepared_picture.ts";
import type { NoAnswer } from "../queued_thread.ts";
import { VisionProcessor } from "./vision_processor.ts";

const scope = globalThis as unknown as {
  postMessage(message: FromVisionThread | NoAnswer, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToVisionThread>) => void) | null;
};

type Question = Extract<ToVisionThread, { type: "prepare" }>;

let processor: VisionProcessor | undefined;

async function load(folder: string): Promise<void> {
  try {
    processor = await VisionProcessor.load(folder);
    scope.postMessage({ type: "loaded", placeholder: processor.placeholder });
  } catch (error) {
    scope.postMessage({ type: "failed", reason: (error as Error).message });
  }
}

async function prepare(given: Question): Promise<void> {
  try {
    const picture = await processFile(given);
    scope.postMessage({ type: "prepared", picture }, buffersOf(picture));
  } catch (error) {
    scope.postMessage({ type: "refused", error: HearthError.from(error).toWire() });
  }
}

async function processFile(
  { bytes, maxPixels, inOnePiece = false }: Question,
): Promise<PreparedPicture> {
  const pixels = await decodeImage(bytes, { maxPixels });
  try {
    return await processor!.prepare(pixels, { inOnePiece });
  } catch (error) {
    // The model's preprocessing has shown at the start that it works: it is the picture that it cannot take.
    const size = `${pixels.width} × ${pixels.height}`;
    throw new HearthError(
      "invalid_media",
      `The model cannot be shown a picture of ${size} pixels: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function buffersOf({ tensors }: PreparedPicture): ArrayBuffer[] {
  return [...new Set(Object.values(tensors).map(({ data }) => data.buffer as ArrayBuffer))];
}

scope.onmessage = ({ data: message }) =>
  message.type === "load" ? load(message.folder) : prepare(message);
