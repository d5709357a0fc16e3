/**
 * From picture files to what a vision model's first graph takes, by the image processor that the folder asks for.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { HearthError } from "../errors.ts";
import { decodeImage } from "../media/image.ts";
import { onWhite } from "../media/on_white.ts";
import type { Pixels } from "../media/pixels.ts";
import { loadTransformers, type Transformers } from "../onnx/hook.ts";
import { Tensor } from "../onnx/ort.ts";
import { toRawImage } from "../onnx/raw_image.ts";
import type { ModelFolder } from "./folder.ts";
import type { ImagePart } from "./task.ts";

/** A class of transformers.js for one kind of processor. */
type ImageProcessor = Awaited<ReturnType<Transformers["AutoImageProcessor"]["from_pretrained"]>>;

/** Most pixels that a picture may be resized to: where only the shorter side is given, a strip would become huge. */
const MAX_RESIZED_PIXELS = 32e6;

/** A picture as the model sees it. */
export interface PreparedPicture {
  /** f32 `[1, channels, height, width]`, on the CPU. */
  readonly pixels: Tensor;
  /** Of the picture itself. */
  readonly width: number;
  readonly height: number;
}

/** See the module. */
export class PictureReader {
  readonly transformers: Transformers;
  readonly processor: ImageProcessor;

  private constructor(transformers: Transformers, processor: ImageProcessor) {
    this.transformers = transformers;
    this.processor = processor;
  }

  /** Reads the folder's `preprocessor_config.json`. */
  static async load({ path }: ModelFolder): Promise<PictureReader> {
    const transformers = await loadTransformers({ modelsFolder: dirname(path) });
    const processor = await transformers.AutoImageProcessor.from_pretrained(basename(path));
    return new PictureReader(transformers, processor);
  }

  /** @throws {HearthError} `invalid_media`, naming the part, when it cannot be read or is too long a strip. */
  read(part: ImagePart): Promise<PreparedPicture> {
    return atPart(part, decodeImage(part.bytes).then((pixels) => this.prepare(pixels)));
  }

  /** @throws {HearthError} `invalid_media` when it is too long a strip. */
  async prepare(decoded: Pixels): Promise<PreparedPicture> {
    const { width, height } = decoded;
    this.#checkProportions(width, height);
    const image = toRawImage(this.transformers.RawImage, onWhite(decoded));
    const { pixel_values: values } = await this.processor(image);
    const pixels = new Tensor("float32", values.data as Float32Array, values.dims);
    return { pixels, width, height };
  }

  #checkProportions(width: number, height: number): void {
    const { processor } = this;
    if (!processor.do_resize) return;
    const image = { size: [width, height] } as unknown as Parameters<
      ImageProcessor["get_resize_output_image_size"]
    >[0];
    const [resizedWidth, resizedHeight] = processor.get_resize_output_image_size(
      image,
      processor.size,
    );
    if (resizedWidth * resizedHeight <= MAX_RESIZED_PIXELS) return;
    throw new HearthError(
      "invalid_media",
      `The picture has ${width} × ${height} pixels, too long a strip for this model, which would enlarge it to ` +
        `${resizedWidth} × ${resizedHeight}. Send the part of it that matters.`,
    );
  }
}

/** What is made of a part; an error that is the client's names it. */
export async function atPart<T>({ param }: ImagePart, made: Promise<T>): Promise<T> {
  try {
    return await made;
  } catch (error) {
    if (!(error instanceof HearthError)) throw error;
    throw new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
  }
}
