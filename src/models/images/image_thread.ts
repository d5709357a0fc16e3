/**
 * The entry point of the thread that decodes and preprocesses images. On the device's own thread this work would block
 * the model.
 *
 * @module
 */
import "../../device/ort/no_location.ts";
import { HearthError } from "../../base/errors.ts";
import { compositeOnWhite, type Pixels } from "../../media/pixels.ts";
import { decodeImage } from "../../media/image.ts";
import type {
  ImageProcessor,
  ImageToPrepare,
  NormalizedImage,
  PreparedMedium,
  VisionProcessor,
} from "./vision_processor.ts";
import { serveFunctions } from "../threads/worker_pool.ts";

/** An image file to decode. */
interface ImageFile extends ImageToPrepare {
  /** Largest width × height that is decoded; the decoder's own limit if absent. */
  readonly maxPixels: number | undefined;
}

let imageProcessor: ImageProcessor | undefined;
let processor: VisionProcessor | undefined;

const functions = {
  /** Loads the image processor of a folder, for `normalize`. Only this and `loadProcessor` load transformers.js. */
  async loadImageProcessor(folder: string): Promise<string> {
    const { ImageProcessor } = await import("./vision_processor.ts");
    imageProcessor = await ImageProcessor.load(folder);
    return "";
  },
  /**
   * Loads the processor of a folder, for `prepare`.
   *
   * @returns the placeholder of an image in the rendered chat template.
   */
  async loadProcessor(folder: string): Promise<string> {
    const { VisionProcessor } = await import("./vision_processor.ts");
    processor = await VisionProcessor.load(folder);
    return processor.placeholder;
  },
  /** Decodes an image onto a white background. */
  async decode({ bytes, maxPixels }: ImageFile): Promise<Pixels> {
    return compositeOnWhite(await decodeImage(bytes, { maxPixels }));
  },
  /** Preprocesses an image for the model's first graph. */
  async normalize(file: ImageFile): Promise<NormalizedImage> {
    return await decodeAndPrepare(file, (pixels) => imageProcessor!.normalize(pixels));
  },
  /** Preprocesses an image for a prompt: the encoder's inputs, and the text that stands for the image. */
  async prepare(file: ImageFile): Promise<PreparedMedium> {
    return await decodeAndPrepare(file, (pixels) => processor!.prepare(pixels, file));
  },
};

/**
 * Decodes a file and preprocesses it for the model.
 *
 * @throws {HearthError} `invalid_media` when the file cannot be decoded, or the model does not support the image.
 */
async function decodeAndPrepare<T>(
  { bytes, maxPixels }: ImageFile,
  prepare: (pixels: Pixels) => Promise<T>,
): Promise<T> {
  const pixels = await decodeImage(bytes, { maxPixels });
  try {
    return await prepare(pixels);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    // The processor worked at startup, so the image must be the cause.
    const size = `${pixels.width} × ${pixels.height}`;
    throw new HearthError(
      "invalid_media",
      `The model does not support an image of ${size} pixels: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

export type ImageThread = typeof functions;

serveFunctions(functions);
