/**
 * `composite_alpha` on the CPU: the oracle of the WGSL kernel, and what the CPU backend runs.
 *
 * With `m` the mask's content and `u`, `v` the weights of the form's filter from its size to the picture's:
 *
 *     alpha[y, x] = clamp(Σ_j v[y, j] Σ_i u[x, i] m[j, i], 0, 1) · own[y, x]
 *
 * where `own` is the alpha that the picture had, 0 to 255; the product is rounded half up, and a sum that is no number
 * counts as 0. Colours stay as they are.
 *
 * @module
 */
import type { Pixels } from "../src/media/pixels.ts";
import type { Weights } from "../src/media/resample_filter.ts";
import { type MaskForm, weighAxis } from "./picture_form.ts";

/**
 * Multiplies a picture's alpha by a mask, in place.
 *
 * @param picture RGBA.
 * @param mask f32 `[height, width]`, after the form.
 */
export function compositeAlpha(picture: Pixels, mask: Float32Array, form: MaskForm): void {
  const { width, height, data } = picture;
  const across = weighAxis(form.contentWidth, width, form.filter);
  const down = weighAxis(form.contentHeight, height, form.filter);
  const stretched = stretchRows(mask, form, {
    across,
    numKept: Math.min(down.stride, form.height),
  });
  const sums = new Float32Array(width);
  for (let y = 0, at = 3; y < height; y++) {
    sums.fill(0);
    for (let k = 0; k < down.count[y]!; k++) {
      const weight = down.values[y * down.stride + k]!;
      const row = stretched(down.first[y]! + k);
      for (let x = 0; x < width; x++) sums[x]! += weight * row[x]!;
    }
    for (let x = 0; x < width; x++, at += 4) {
      const sum = sums[x]!;
      // Written so that NaN comes out as 0.
      const alpha = sum > 0 ? sum < 1 ? sum : 1 : 0;
      data[at] = alpha * data[at]! + 0.5;
    }
  }
}

/** The mask's rows, as wide as the picture; each is made when it is first asked for, and the last few are kept. */
function stretchRows(
  mask: Float32Array,
  { width }: MaskForm,
  { across: { first, count, stride, values }, numKept }: { across: Weights; numKept: number },
): (row: number) => Float32Array {
  const kept = Array.from({ length: numKept }, () => new Float32Array(first.length));
  const keptRows = new Int32Array(numKept).fill(-1);
  return (row) => {
    const place = row % numKept;
    const stretched = kept[place]!;
    if (keptRows[place] === row) return stretched;
    keptRows[place] = row;
    const start = row * width;
    for (let x = 0; x < stretched.length; x++) {
      let sum = 0;
      for (let k = 0; k < count[x]!; k++) {
        sum += values[x * stride + k]! * mask[start + first[x]! + k]!;
      }
      stretched[x] = sum;
    }
    return stretched;
  };
}
