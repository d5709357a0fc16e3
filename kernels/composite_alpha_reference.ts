/**
 * `composite_alpha` on the CPU: the oracle of the WGSL kernel, and what the CPU backend runs.
 *
 * With `m` the mask's content and `u`, `v` the weights of the form's filter from its size to the picture's:
 *
 *     alpha[y, x] = clamp(Σ_j v[y, j] Σ_i u[x, i] m[j, i], 0, 1) · own[y, x]
 *
 * where `own` is the alpha that the picture had, 0 to 255; the product is rounded half up, and a sum that is no number
 * counts as 0. Where alpha comes to 0 so do the colours: what was removed cannot be brought back, and files of it are
 * smaller and sooner written. Elsewhere colours stay as they are.
 *
 * @module
 */
import type { Pixels } from "../src/media/pixels.ts";
import type { Weights } from "../src/media/resample_filter.ts";
import { type MaskForm, weighAxis } from "./picture_form.ts";

/**
 * Multiplies a picture's alpha by a mask.
 *
 * @param picture RGBA, which is changed in place, or RGB, which is opaque and left as it is.
 * @param mask f32 `[height, width]`, after the form.
 * @returns RGBA.
 */
export function compositeAlpha(picture: Pixels, mask: Float32Array, form: MaskForm): Pixels {
  const { width, height, channels } = picture;
  const data = channels === 4 ? picture.data : new Uint8Array(4 * width * height);
  const across = weighAxis(form.contentWidth, width, form.filter);
  const down = weighAxis(form.contentHeight, height, form.filter);
  const blend = height < form.contentHeight
    ? shrinkThenStretch(mask, form, { across, down })
    : stretchThenBlend(mask, form, { across, down });
  const sums = new Float32Array(width);
  for (let y = 0; y < height; y++) {
    blend(y, sums);
    const at = 4 * y * width;
    if (channels === 4) multiplyAlpha(data.subarray(at, at + 4 * width), sums);
    else addAlpha(data.subarray(at, at + 4 * width), picture.data.subarray(3 * y * width), sums);
  }
  return { width, height, channels: 4, data };
}

function multiplyAlpha(row: Uint8Array, sums: Float32Array): void {
  for (let x = 0, at = 0; x < sums.length; x++, at += 4) {
    const alpha = Math.floor(clampAlpha(sums[x]!) * row[at + 3]! + 0.5);
    row[at + 3] = alpha;
    if (alpha !== 0) continue;
    row[at] = 0;
    row[at + 1] = 0;
    row[at + 2] = 0;
  }
}

/** @param row new, and therefore 0. */
function addAlpha(row: Uint8Array, colors: Uint8Array, sums: Float32Array): void {
  for (let x = 0, from = 0, to = 0; x < sums.length; x++, from += 3, to += 4) {
    const alpha = Math.floor(clampAlpha(sums[x]!) * 255 + 0.5);
    if (alpha === 0) continue;
    row[to] = colors[from]!;
    row[to + 1] = colors[from + 1]!;
    row[to + 2] = colors[from + 2]!;
    row[to + 3] = alpha;
  }
}

/** Written so that NaN comes out as 0. */
function clampAlpha(sum: number): number {
  return sum > 0 ? sum < 1 ? sum : 1 : 0;
}

/** Writes a row of the mask at the picture's size. */
type RowMaker = (row: number, into: Float32Array) => void;

interface Axes {
  readonly across: Weights;
  readonly down: Weights;
}

/** Makes the mask's rows as wide as the picture, each once, and blends neighbours: the less work where masks grow. */
function stretchThenBlend(mask: Float32Array, form: MaskForm, { across, down }: Axes): RowMaker {
  // As many as any row of the picture is made of.
  const numKept = Math.min(down.stride, form.height);
  const kept = Array.from({ length: numKept }, () => new Float32Array(across.first.length));
  const keptRows = new Int32Array(numKept).fill(-1);
  const stretched = (row: number) => {
    const place = row % numKept;
    if (keptRows[place] !== row) stretchRow(mask, row * form.width, across, kept[place]!);
    keptRows[place] = row;
    return kept[place]!;
  };
  return (y, into) => {
    const rows = Array.from({ length: down.count[y]! }, (_, k) => stretched(down.first[y]! + k));
    const weights = down.values.subarray(y * down.stride, y * down.stride + rows.length);
    const [above, below = above!] = rows;
    const [upper = 0, lower = 0] = weights;
    blendRows(into, [above!, upper], [below, lower]);
    for (let k = 2; k < rows.length; k++) addRow(into, rows[k]!, weights[k]!);
  };
}

/** Makes the mask as high as the picture first: it has few rows then, and a long row is made once. */
function shrinkThenStretch(mask: Float32Array, form: MaskForm, { across, down }: Axes): RowMaker {
  const low = new Float32Array(form.width);
  return (y, into) => {
    low.fill(0);
    for (let k = 0; k < down.count[y]!; k++) {
      const start = (down.first[y]! + k) * form.width;
      addRow(low, mask.subarray(start, start + form.width), down.values[y * down.stride + k]!);
    }
    stretchRow(low, 0, across, into);
  };
}

function blendRows(
  into: Float32Array,
  [above, upper]: readonly [row: Float32Array, weight: number],
  [below, lower]: readonly [row: Float32Array, weight: number],
): void {
  for (let x = 0; x < into.length; x++) into[x] = upper * above[x]! + lower * below[x]!;
}

function addRow(sums: Float32Array, row: Float32Array, weight: number): void {
  for (let x = 0; x < sums.length; x++) sums[x]! += weight * row[x]!;
}

function stretchRow(
  mask: Float32Array,
  start: number,
  { first, count, stride, values }: Weights,
  into: Float32Array,
): void {
  for (let x = 0; x < into.length; x++) {
    let sum = 0;
    for (let k = 0; k < count[x]!; k++) {
      sum += values[x * stride + k]! * mask[start + first[x]! + k]!;
    }
    into[x] = sum;
  }
}
