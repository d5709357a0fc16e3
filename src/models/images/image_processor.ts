/**
 * Preprocesses images for a model's first graph, with the folder's image processor.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { HearthError } from "../../base/errors.ts";
import { compositeOnWhite } from "../../media/alpha.ts";
import type { Pixels } from "../../media/pixels.ts";
import { loadTransformers, type Transformers } from "../../device/ort/hook.ts";
import { toRawImage } from "../../device/ort/raw_image.ts";

/** A preprocessed image for a model's first graph. */
export interface NormalizedImage {
  /** f32, with shape `dims`. */
  readonly data: Float32Array<ArrayBuffer>;
  /** `[1, channels, height, width]`. */
  readonly dims: readonly number[];
  /** Width of the original image. */
  readonly width: number;
  readonly height: number;
}

/** A class of transformers.js for one kind of processor. */
type Processor = Awaited<ReturnType<Transformers["AutoImageProcessor"]["from_pretrained"]>>;

/** Most pixels after resizing: if only the shorter side is fixed, a narrow strip would become huge. */
const MAX_RESIZED_PIXELS = 32e6;

export class ImageProcessor {
  readonly #transformers: Transformers;
  readonly #processor: Processor;

  private constructor(transformers: Transformers, processor: Processor) {
    this.#transformers = transformers;
    this.#processor = processor;
  }

  /** Reads the `preprocessor_config.json` of a folder. */
  static async load(folder: string): Promise<ImageProcessor> {
    const transformers = await loadTransformers({ modelsFolder: dirname(folder) });
    const processor = await transformers.AutoImageProcessor.from_pretrained(basename(folder));
    return new ImageProcessor(transformers, processor);
  }

  /**
   * @throws {HearthError} `invalid_media` when the image is too long a strip.
   * @throws {Error} when the processor refuses its shape.
   */
  async normalize(decoded: Pixels): Promise<NormalizedImage> {
    const { width, height } = decoded;
    this.#checkProportions(width, height);
    const image = toRawImage(this.#transformers.RawImage, compositeOnWhite(decoded));
    const { pixel_values: { data, dims } } = await this.#processor(image);
    return { data: data as Float32Array<ArrayBuffer>, dims, width, height };
  }

  #checkProportions(width: number, height: number): void {
    const processor = this.#processor;
    if (!processor.do_resize) return;
    const image = { size: [width, height] } as unknown as Parameters<
      Processor["get_resize_output_image_size"]
    >[0];
    const [resizedWidth, resizedHeight] = processor.get_resize_output_image_size(
      image,
      processor.size,
    );
    if (resizedWidth * resizedHeight <= MAX_RESIZED_PIXELS) return;
    throw new HearthError(
      "invalid_media",
      `The image has ${width} × ${height} pixels, too long a strip for this model, which would enlarge it to ` +
        `${resizedWidth} × ${resizedHeight}. Send the part of it that matters.`,
    );
  }
}
