/**
 * A thread that decodes and encodes pictures, so that the one that owns the device goes on meanwhile.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import { decodeImage } from "../../media/image.ts";
import type { FromCodecThread, ToCodecThread } from "./codec_message.ts";
import { packCutOutStripe } from "./cut_out_stripe.ts";

const scope = globalThis as unknown as {
  postMessage(message: FromCodecThread, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToCodecThread>) => void) | null;
};

scope.onmessage = async ({ data: message }) => {
  try {
    if (message.type === "decode") {
      const pixels = await decodeImage(message.file, {
        keepsAlpha: true,
        maxPixels: message.maxPixels,
      });
      scope.postMessage({ type: "decoded", pixels }, [pixels.data.buffer]);
    } else {
      const stripe = packCutOutStripe(message.stripe);
      scope.postMessage({ type: "packed", stripe }, [stripe.chunks.buffer]);
    }
  } catch (error) {
    scope.postMessage(
      error instanceof HearthError
        ? { type: "refused", error: error.toWire() }
        : { type: "failed", reason: (error as Error).message },
    );
  }
};
