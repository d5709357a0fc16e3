/**
 * Pictures as a graph takes them: channel after channel, levels scaled.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import { Tensor } from "../../onnx/ort.ts";
import type { Levels } from "./line_ocr_config.ts";

/**
 * Pictures of equal height side by side in a batch; to the right of a picture that is narrower there are zeros.
 *
 * @param pictures of 3 channels.
 * @returns f32 `[pictures, 3, height, width]`, on the CPU.
 */
export function stackPictures(
  pictures: readonly Pixels[],
  { width, levels }: { readonly width: number; readonly levels: Levels },
): Tensor {
  const { height } = pictures[0]!;
  const { scale, offset, channels } = levels;
  const data = new Float32Array(pictures.length * 3 * height * width);
  let plane = 0;
  for (const picture of pictures) {
    for (let channel = 0; channel < 3; channel++, plane += height * width) {
      const [factor, addend] = [scale[channel]!, offset[channel]!];
      for (let y = 0; y < height; y++) {
        let from = y * picture.width * 3 + channels[channel]!;
        const start = plane + y * width;
        for (let to = start; to < start + picture.width; to++, from += 3) {
          data[to] = picture.data[from]! * factor + addend;
        }
      }
    }
  }
  return new Tensor("float32", data, [pictures.length, 3, height, width]);
}
