/**
 * The thread that decodes pictures and prepares them, so that the one that owns the device goes on meanwhile.
 *
 * @module
 */
import "../../onnx/no_location.ts";
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import { onWhite } from "../../media/on_white.ts";
import type { FromPictureThread, ToPictureThread } from "./picture_message.ts";
import type { PictureReader } from "./picture_reader.ts";
import type { NoAnswer } from "../queued_thread.ts";

const scope = globalThis as unknown as {
  postMessage(message: FromPictureThread | NoAnswer, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToPictureThread>) => void) | null;
};

let reader: PictureReader | undefined;

scope.onmessage = async ({ data: message }) => {
  try {
    switch (message.type) {
      case "load": {
        // Whoever wants pixels only does without transformers.js.
        const { PictureReader } = await import("./picture_reader.ts");
        reader = await PictureReader.load(message.folder);
        return scope.postMessage({ type: "loaded" });
      }
      case "prepare": {
        const picture = await reader!.prepare(await decodeImage(message.bytes, message));
        return scope.postMessage({ type: "prepared", picture }, [picture.data.buffer]);
      }
      case "decode": {
        const pixels = onWhite(await decodeImage(message.bytes, message));
        return scope.postMessage({ type: "decoded", pixels }, [pixels.data.buffer]);
      }
    }
  } catch (error) {
    scope.postMessage(
      error instanceof HearthError
        ? { type: "refused", error: error.toWire() }
        : { type: "failed", reason: (error as Error).message },
    );
  }
};
