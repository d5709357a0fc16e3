/**
 * The thread that decodes images and prepares them, so that the one that owns the device is not blocked.
 *
 * @module
 */
import "../../onnx/runtime/no_location.ts";
import { decodeImage } from "../../media/image.ts";
import { onWhite } from "../../media/on_white.ts";
import { serveRequests } from "../worker_rpc_server.ts";
import type { FromImageThread, ToImageThread } from "./image_message.ts";
import type { ImageReader } from "./image_reader.ts";

let reader: ImageReader | undefined;

serveRequests<ToImageThread, FromImageThread>(async (question) => {
  switch (question.type) {
    case "load": {
      // Without a folder only pixels are wanted, which need no transformers.js.
      const { ImageReader } = await import("./image_reader.ts");
      reader = await ImageReader.load(question.folder);
      return { message: { type: "loaded" } };
    }
    case "prepare": {
      const image = await reader!.prepare(await decodeImage(question.bytes, question));
      return { message: { type: "prepared", image }, transfer: [image.data.buffer] };
    }
    case "decode": {
      const pixels = onWhite(await decodeImage(question.bytes, question));
      return { message: { type: "decoded", pixels }, transfer: [pixels.data.buffer] };
    }
  }
});
