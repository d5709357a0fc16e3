/**
 * `resize_normalize` on the CPU: the reference for the WGSL kernel, and the CPU backend's implementation.
 *
 * With `p` the image and `u`, `v` the weights of the format's filter along x and y, each row of which adds up to 1:
 *
 *     wide[j, x, c]   = level(Σ_i u[x, i] p[j, i, c])
 *     output[y, x, c] = scale[c] · level(Σ_j v[y, j] wide[j, x, c]) + offset[c]
 *
 * for x and y within the format's content, and 0 beyond it; alpha is ignored. `level` rounds to 0…255 with Pillow's
 * arithmetic: models are trained on images that Pillow resized, which rounds after each of its two passes, and small
 * models are sensitive to that. A filter widens by the factor by which an image shrinks, so that every pixel counts
 * (antialiasing).
 *
 * @module
 */
import type { Pixels } from "../../src/media/pixels.ts";
import { resizeChannels } from "../../src/media/resample.ts";
import type { TensorFormat } from "./image_format.ts";

const CHANNELS = 3;

/**
 * Writes an image as a tensor.
 *
 * @param image with any number of channels; grey becomes three equal channels.
 * @param output f32 `[3, height, width]` or `[height, width, 3]`, as the format says.
 */
export function resizeNormalize(
  image: Pixels,
  format: TensorFormat,
  output: Float32Array,
): void {
  const { contentWidth: width, contentHeight: height, filter } = format;
  normalize(resizeChannels(image, { width, height, filter }), format, output);
}

function normalize(
  { channels, data }: Pixels,
  { layout, width, height, contentWidth, contentHeight, scale, offset }: TensorFormat,
  output: Float32Array,
): void {
  const [channelStep, pixelStep] = layout === "nchw" ? [width * height, 1] : [1, CHANNELS];
  if (contentWidth < width || contentHeight < height) output.fill(0);
  for (let c = 0; c < CHANNELS; c++) {
    const [factor, constant] = [scale[c]!, offset[c]!];
    let from = channels < CHANNELS ? 0 : c;
    for (let y = 0; y < contentHeight; y++) {
      let to = y * width * pixelStep + c * channelStep;
      for (let x = 0; x < contentWidth; x++, from += channels, to += pixelStep) {
        output[to] = data[from]! * factor + constant;
      }
    }
  }
}
