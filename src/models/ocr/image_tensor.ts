/**
 * Images as tensors: planar channels, scaled levels.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import { Tensor } from "../../onnx/runtime/ort.ts";
import type { Levels } from "./line_ocr_config.ts";

/**
 * A batch of images of equal height; narrower ones are padded with zeros on the right.
 *
 * @param images of 3 channels.
 * @returns f32 `[images, 3, height, width]`, on the CPU.
 */
export function stackImages(
  images: readonly Pixels[],
  { width, levels }: { readonly width: number; readonly levels: Levels },
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
