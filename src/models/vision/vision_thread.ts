/**
 * The thread that decodes, resizes and normalises pictures, so that the one that owns the device goes on meanwhile.
 *
 * @module
 */
import "../../onnx/no_location.ts";
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import { answerQuestions } from "../answer_questions.ts";
import type { FromVisionThread, PreparedPicture, ToVisionThread } from "../prepared_picture.ts";
import { VisionProcessor } from "./vision_processor.ts";

let processor: VisionProcessor | undefined;

answerQuestions<ToVisionThread, FromVisionThread>(async (question) => {
  switch (question.type) {
    case "load": {
      processor = await VisionProcessor.load(question.folder);
      return { message: { type: "loaded", placeholder: processor.placeholder } };
    }
    case "prepare": {
      const picture = await prepare(question);
      return { message: { type: "prepared", picture }, transfer: buffersOf(picture) };
    }
  }
});

async function prepare(
  { bytes, maxPixels, inOnePiece = false }: Extract<ToVisionThread, { type: "prepare" }>,
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
