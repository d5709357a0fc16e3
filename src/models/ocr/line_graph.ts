/**
 * A graph of a line OCR model, which takes batches of images.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import { type Levels, readLevelRange } from "../folder/preprocessor_config.ts";

export interface ChannelLevels extends Levels {
  /** The order in which the graph takes the channels: indices of red (0), green (1) and blue (2). */
  readonly channels: readonly [number, number, number];
}

/** Converts a model's settings, in which `mean` and `std` follow the graph's order of channels. */
export function readChannelLevels(
  { isBgr, ...levels }: Parameters<typeof readLevelRange>[0] & { readonly isBgr: boolean },
): ChannelLevels {
  return { ...readLevelRange(levels), channels: isBgr ? [2, 1, 0] : [0, 1, 2] };
}

export class LineGraph<Config extends { readonly levels: ChannelLevels }> {
  readonly config: Config;
  readonly #backend: Backend;
  readonly #session: GraphSession;

  /** @param parts.session owned by the new object. */
  constructor(
    config: Config,
    parts: { readonly backend: Backend; readonly session: GraphSession },
  ) {
    this.config = config;
    this.#backend = parts.backend;
    this.#session = parts.session;
  }

  /**
   * Runs a batch of images.
   *
   * @param images images of 3 channels and equal height; each is padded to `width`.
   * @returns the graph's first output, f32.
   */
  async run(
    images: readonly Pixels[],
    width: number,
  ): Promise<{ readonly data: Float32Array; readonly dims: readonly number[] }> {
    const { inputs: [input], outputs: [output] } = this.#session;
    const stacked = stackImages(images, { width, levels: this.config.levels });
    const tensor = (await this.#session.run({ [input!.name]: stacked }))[output!.name]!;
    const { dims } = tensor;
    const data = await this.#backend.read(tensor);
    tensor.dispose();
    return { data, dims };
  }

  release(): Promise<void> {
    return this.#session.release();
  }
}

/**
 * Stacks images of equal height into a batch. Images narrower than `width` are padded with zeros on the right.
 *
 * @param images images of 3 channels.
 * @returns f32 `[images, 3, height, width]`, on the CPU.
 */
export function stackImages(
  images: readonly Pixels[],
  { width, levels }: { readonly width: number; readonly levels: ChannelLevels },
): Tensor {
  const { height } = images[0]!;
  const { scale, offset, channels } = levels;
  const data = new Float32Array(images.length * 3 * height * width);
  let plane = 0;
  for (const image of images) {
    for (let channel = 0; channel < 3; channel++, plane += height * width) {
      const [factor, addend] = [scale[channel]!, offset[channel]!];
      for (let y = 0; y < height; y++) {
        let from = y * image.width * 3 + channels[channel]!;
        const start = plane + y * width;
        for (let to = start; to < start + image.width; to++, from += 3) {
          data[to] = image.data[from]! * factor + addend;
        }
      }
    }
  }
  return new Tensor("float32", data, [images.length, 3, height, width]);
}
