/**
 * `resize_normalize` on the CPU: the oracle of the WGSL kernel, and what the CPU backend runs.
 *
 * With `p` the picture and `u`, `v` the weights of the form's filter along x and y, each row of which adds up to 1:
 *
 *     wide[j, x, c]   = level(Σ_i u[x, i] p[j, i, c])
 *     output[y, x, c] = scale[c] · level(Σ_j v[y, j] wide[j, x, c]) + offset[c]
 *
 * for x and y within the form's content, and 0 beyond it; alpha is passed over. `level` rounds half up to 0…255: models
 * are trained on pictures that Pillow resized, with whole levels after each of its two passes, and small ones notice.
 * A filter widens by the factor by which a picture shrinks, so that every pixel counts (antialiasing).
 *
 * @module
 */
import type { Pixels } from "../src/media/pixels.ts";
import type { Weights } from "../src/media/resample_filter.ts";
import { type TensorForm, weighAxis } from "./picture_form.ts";

const CHANNELS = 3;

/**
 * Writes a picture as a tensor.
 *
 * @param picture of any channels; grey has three that are equal.
 * @param output f32 `[3, height, width]` or `[height, width, 3]`, after the form.
 */
export function resizeNormalize(
  picture: Pixels,
  form: TensorForm,
  output: Float32Array,
): void {
  const { contentWidth, contentHeight, filter } = form;
  const across = weighAxis(picture.width, contentWidth, filter);
  const down = weighAxis(picture.height, contentHeight, filter);
  const wide = new Uint8Array(CHANNELS * contentWidth);
  const sums = new Float64Array(contentHeight * wide.length);
  // Each row of the picture is read once, and goes into all rows it is a part of.
  let top = 0;
  for (let row = 0; row < picture.height; row++) {
    while (top < contentHeight && down.first[top]! + down.count[top]! <= row) top++;
    let isWide = false;
    for (let y = top; y < contentHeight && down.first[y]! <= row; y++) {
      const weight = down.values[y * down.stride + row - down.first[y]!]!;
      if (row - down.first[y]! >= down.count[y]!) continue;
      if (!isWide) shrinkRow(picture, row, across, wide);
      isWide = true;
      const to = y * wide.length;
      for (let i = 0; i < wide.length; i++) sums[to + i]! += weight * wide[i]!;
    }
  }
  normalize(sums, form, output);
}

function shrinkRow(
  { width, channels, data }: Pixels,
  row: number,
  { first, count, stride, values }: Weights,
  wide: Uint8Array,
): void {
  const start = channels * row * width;
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  for (let x = 0, to = 0; x < first.length; x++, to += CHANNELS) {
    let r = 0, g = 0, b = 0;
    const end = x * stride + count[x]!;
    for (let k = x * stride, at = start + channels * first[x]!; k < end; k++, at += channels) {
      const weight = values[k]!;
      r += weight * data[at]!;
      g += weight * data[at + green]!;
      b += weight * data[at + blue]!;
    }
    wide[to] = levelOf(r);
    wide[to + 1] = levelOf(g);
    wide[to + 2] = levelOf(b);
  }
}

function normalize(
  sums: Float64Array,
  { layout, width, height, contentWidth, contentHeight, scale, offset }: TensorForm,
  output: Float32Array,
): void {
  const [channelStep, pixelStep] = layout === "nchw" ? [width * height, 1] : [1, CHANNELS];
  if (contentWidth < width || contentHeight < height) output.fill(0);
  for (let y = 0, from = 0; y < contentHeight; y++) {
    for (let x = 0; x < contentWidth; x++, from += CHANNELS) {
      const to = (y * width + x) * pixelStep;
      for (let c = 0; c < CHANNELS; c++) {
        output[to + c * channelStep] = levelOf(sums[from + c]!) * scale[c]! + offset[c]!;
      }
    }
  }
}

function levelOf(sum: number): number {
  return sum <= 0 ? 0 : sum >= 255 ? 255 : Math.floor(sum + 0.5);
}
