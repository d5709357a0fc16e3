/**
 * The thread that decodes pictures and prepares them, so that the one that owns the device goes on meanwhile.
 *
 * @module
 */
import "../../onnx/no_location.ts";
import { decodeImage } from "../../media/image.ts";
import { onWhite } from "../../media/on_white.ts";
import { answerQuestions } from "../answer_questions.ts";
import type { FromPictureThread, ToPictureThread } from "./picture_message.ts";
import type { PictureReader } from "./picture_reader.ts";

let reader: PictureReader | undefined;

answerQuestions<ToPictureThread, FromPictureThread>(async (question) => {
  switch (question.type) {
    case "load": {
      // Whoever wants pixels only does without transformers.js.
      const { PictureReader } = await import("./picture_reader.ts");
      reader = await PictureReader.load(question.folder);
      return { message: { type: "loaded" } };
    }
    case "prepare": {
      const picture = await reader!.prepare(await decodeImage(question.bytes, question));
      return { message: { type: "prepared", picture }, transfer: [picture.data.buffer] };
    }
    case "decode": {
      const pixels = onWhite(await decodeImage(question.bytes, question));
      return { message: { type: "decoded", pixels }, transfer: [pixels.data.buffer] };
    }
  }
});
