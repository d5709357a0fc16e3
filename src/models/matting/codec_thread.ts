/**
 * A thread that decodes and encodes images, so that the one that owns the device is not blocked.
 *
 * @module
 */
import { decodeImage } from "../../media/image.ts";
import { serveRequests } from "../worker_rpc_server.ts";
import type { FromCodecThread, ToCodecThread } from "./codec_message.ts";
import { makeWholeCutOut, packCutOutStripe } from "./cut_out.ts";

serveRequests<ToCodecThread, FromCodecThread>(async (question) => {
  switch (question.type) {
    case "decode": {
      const { file, maxPixels } = question;
      const pixels = await decodeImage(file, { keepsAlpha: true, maxPixels });
      return { message: { type: "decoded", pixels }, transfer: [pixels.data.buffer] };
    }
    case "make": {
      const pixels = makeWholeCutOut(question.cutOut);
      return { message: { type: "made", pixels }, transfer: [pixels.data.buffer] };
    }
    case "pack": {
      const stripe = packCutOutStripe(question.stripe);
      return { message: { type: "packed", stripe }, transfer: [stripe.chunks.buffer] };
    }
  }
});
