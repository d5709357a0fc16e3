/**
 * The first runs of an image-to-text model, before the first request: they compile the device's programs, fail for a
 * model that cannot run, and measure sizes that no configuration gives.
 *
 * @module
 */
import { encodePng } from "../../media/png.ts";
import { Tensor } from "../../onnx/runtime/ort.ts";
import type { OcrFamily } from "./ocr_family.ts";
import type { ImageEncoder, ImageInput } from "./image_encoder.ts";
import type { ImagePreprocessor } from "./image_preprocessor.ts";

/** The encoder output of an image and a text. */
export interface Probe {
  readonly input: ImageInput;
  /** Positions of an image in the encoder's output. */
  readonly numPositions: number;
  /** Whether images of all sizes have as many positions. */
  readonly hasOneSize: boolean;
}

const WHITE = 255;

/** Encodes a blank image. */
export async function probeEncoder(
  encoder: ImageEncoder,
  { family, imagePreprocessor }: {
    readonly family: OcrFamily;
    readonly imagePreprocessor: ImagePreprocessor;
  },
): Promise<Probe> {
  const { text } = family.readPrompt("hello");
  const pixels = await prepareBlank(imagePreprocessor, 64, 64);
  const wide = await prepareBlank(imagePreprocessor, 96, 64);
  const input = { pixels, text };
  const hidden = await encoder.encode([input]);
  const numPositions = hidden.dims[1]! - text.length;
  hidden.dispose();
  return { input, numPositions, hasOneSize: pixels.dims.join() === wide.dims.join() };
}

async function prepareBlank(
  imagePreprocessor: ImagePreprocessor,
  width: number,
  height: number,
): Promise<Tensor> {
  const pixels = new Uint8Array(width * height * 3).fill(WHITE);
  const bytes = encodePng({ width, height, channels: 3, data: pixels });
  const part = { type: "image", bytes, param: "warm-up" } as const;
  const { data, dims } = await imagePreprocessor.prepare(part, new AbortController().signal);
  return new Tensor("float32", data, dims);
}
