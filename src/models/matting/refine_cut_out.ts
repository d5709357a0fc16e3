/**
 * Fits a cut-out to the edges in the image, which a mask of a few hundred pixels cannot follow, and removes the
 * background's colour from the rim of the subject.
 *
 * Edges and colours are computed at a size close to that of the mask. In the full image, only the rim is processed.
 *
 * @module
 */
import { resizeNormalize } from "../../../kernels/images/image_reference.ts";
import {
  type ColorPlanes,
  computeBoxMeans,
  fitToGuide,
  type Plane,
  PlaneSampler,
} from "../../media/plane.ts";
import type { Pixels } from "../../media/pixels.ts";
import { resizeChannels } from "../../media/resample.ts";
import type { Size } from "../folder/preprocessor_config.ts";

/**
 * Edges are refined in a copy of the image whose longer side is twice the mask's, within these bounds in pixels.
 */
const LEAST_SIDE = 512;
const MOST_SIDE = 1024;
/** The largest error of a mask's edge, in pixels of the mask. */
const MASK_RADIUS = 4;
/** Variance of colour below which there is no edge. */
const EPSILON = 1e-4;
/** Alpha closer than this to 0 or 1 counts as certain and is kept. */
const CERTAIN = 0.01;
/**
 * Alpha farther than this from 0 and 1 is replaced by the refined value. Between the two limits, the old and the
 * refined value are blended.
 */
const UNCERTAIN = 0.05;

/**
 * Refines a cut-out in place.
 *
 * @param cutOut RGBA.
 */
export function refineCutOut(cutOut: Pixels, { maskSide, original }: {
  /** Longer side of the mask from which the alpha was computed, in pixels. */
  readonly maskSide: number;
  /** The original image, RGB or RGBA. Its alpha is an upper bound of the result's. */
  readonly original: Pixels;
}): void {
  const side = Math.min(MOST_SIDE, Math.max(LEAST_SIDE, 2 * maskSide));
  const colors = shrinkColors(original, fitInto(original, side));
  const radius = Math.max(2, Math.round(MASK_RADIUS * side / maskSide));
  refineAlpha({ cutOut, original, colors }, radius);
  decontaminate({ cutOut, original, colors });
}

interface Refinement {
  readonly cutOut: Pixels;
  readonly original: Pixels;
  /** The original's colours at a smaller size. */
  readonly colors: ColorPlanes;
}

function refineAlpha({ cutOut, original, colors }: Refinement, radius: number): void {
  const { channels, data: seen } = original;
  const alpha = shrinkAlpha(cutOut, colors[0]);
  const { factors, constant } = fitToGuide(colors, alpha, { radius, epsilon: EPSILON });
  const [red, green, blue] = factors;
  const visit = (pixel: number, sampler: PlaneSampler) => {
    const from = channels * pixel;
    const at = 4 * pixel;
    const byEdges = (sampler.read(red) * seen[from]! + sampler.read(green) * seen[from + 1]! +
          sampler.read(blue) * seen[from + 2]!) / 255 + sampler.read(constant);
    const old = cutOut.data[at + 3]! / 255;
    const doubt = (Math.min(old, 1 - old) - CERTAIN) / (UNCERTAIN - CERTAIN);
    const share = Math.min(1, Math.max(0, doubt));
    const refined = old + share * (Math.min(1, Math.max(0, byEdges)) - old);
    const most = channels === 4 ? seen[from + 3]! : 255;
    const level = Math.floor(Math.min(most, 255 * refined + 0.5));
    cutOut.data[at + 3] = level;
    // Fully transparent pixels become black.
    if (level === 0) cutOut.data.fill(0, at, at + 3);
  };
  const bounds = { low: 255 * CERTAIN, high: 255 * (1 - CERTAIN) };
  forEachBetween(cutOut, { ...bounds, small: alpha, visit });
}

function decontaminate({ cutOut, original, colors }: Refinement): void {
  const { channels, data: seen } = original;
  const { data } = cutOut;
  const small = shrinkAlpha(cutOut, colors[0]);
  const { foreground, background } = separateColors(colors, small);
  const visit = (pixel: number, sampler: PlaneSampler) => {
    const at = 4 * pixel;
    const alpha = data[at + 3]! / 255;
    for (let c = 0; c < 3; c++) {
      const color = unmix(seen[channels * pixel + c]! / 255, {
        alpha,
        foreground: sampler.read(foreground[c]!),
        background: sampler.read(background[c]!),
      });
      data[at + c] = 255 * color + 0.5;
    }
  };
  forEachBetween(cutOut, { low: 0, high: 255, small, visit });
}

interface Visits {
  /** Only pixels with an alpha between `low` and `high` are visited. */
  readonly low: number;
  readonly high: number;
  /** A plane of the small size, which the sampler reads. */
  readonly small: Plane;
  /** Called for each pixel, with the sampler moved to it. */
  readonly visit: (pixel: number, sampler: PlaneSampler) => void;
}

function forEachBetween(
  { width, height, data }: Pixels,
  { low, high, small, visit }: Visits,
): void {
  const sampler = new PlaneSampler({ small, large: { width, height } });
  for (let y = 0, pixel = 0; y < height; y++) {
    for (let x = 0; x < width; x++, pixel++) {
      const alpha = data[4 * pixel + 3]!;
      if (alpha <= low || alpha >= high) continue;
      sampler.moveTo(x, y);
      visit(pixel, sampler);
    }
  }
}

/** Computes the largest size of the same aspect ratio whose sides are at most `side` and do not exceed the image's. */
function fitInto({ width, height }: Pixels, side: number): Size {
  const factor = Math.min(1, side / Math.max(width, height));
  const fit = (length: number) => Math.max(1, Math.round(length * factor));
  return { width: fit(width), height: fit(height) };
}

function shrinkColors(original: Pixels, { width, height }: Size): ColorPlanes {
  const size = width * height;
  const levels = new Float32Array(3 * size);
  resizeNormalize(original, {
    layout: "nchw",
    width,
    height,
    contentWidth: width,
    contentHeight: height,
    filter: "bilinear",
    scale: [1 / 255, 1 / 255, 1 / 255],
    offset: [0, 0, 0],
  }, levels);
  const plane = (c: number) => ({ width, height, data: levels.subarray(c * size, (c + 1) * size) });
  return [plane(0), plane(1), plane(2)];
}

function shrinkAlpha(cutOut: Pixels, { width, height }: Size): Plane {
  // Resizing all four channels and keeping one is faster than extracting that one from a large image first.
  const { data: small } = resizeChannels(cutOut, { width, height, filter: "bilinear" });
  const data = Float32Array.from({ length: width * height }, (_, i) => small[4 * i + 3]! / 255);
  return { width, height, data };
}

/** Window radii of the two rounds in pixels, for an image whose longer side is `REFERENCE_SIDE`. */
const RADII = [45, 3] as const;
const REFERENCE_SIDE = 1024;
const LEAST_WEIGHT = 1e-5;

/** Smooth foreground and background colours for each pixel. */
interface SeparatedColors {
  readonly foreground: ColorPlanes;
  readonly background: ColorPlanes;
}

/**
 * Estimates foreground and background colours as local means, which a second round with smaller windows refines.
 *
 * @see M. Forte: Approximate Fast Foreground Colour Estimation, ICIP 2021
 * @param alpha alpha of each pixel, 0 to 1.
 */
export function separateColors(image: ColorPlanes, alpha: Plane): SeparatedColors {
  const side = Math.max(alpha.width, alpha.height);
  const inverse: Plane = { ...alpha, data: alpha.data.map((value) => 1 - value) };
  let foreground = image;
  let background = image;
  for (const [round, radius] of RADII.entries()) {
    const scaled = Math.max(1, Math.round(radius * side / REFERENCE_SIDE));
    const nearby = computeWeightedMeans(foreground, alpha, scaled);
    background = computeWeightedMeans(background, inverse, scaled);
    const isLast = round === RADII.length - 1;
    foreground = isLast ? nearby : unmixAll(image, alpha, { foreground: nearby, background });
  }
  return { foreground, background };
}

function unmixAll(
  image: ColorPlanes,
  alpha: Plane,
  { foreground, background }: SeparatedColors,
): ColorPlanes {
  return image.map(({ data: seen, ...size }, c) => {
    const data = new Float32Array(seen.length);
    const [own, behind] = [foreground[c]!.data, background[c]!.data];
    for (let i = 0; i < data.length; i++) {
      data[i] = unmix(seen[i]!, {
        alpha: alpha.data[i]!,
        foreground: own[i]!,
        background: behind[i]!,
      });
    }
    return { ...size, data };
  }) as unknown as ColorPlanes;
}

/**
 * Computes the foreground colour of a pixel, 0 to 1. The estimate `foreground` is corrected by alpha times the
 * difference between the colour `seen` and the blend of `foreground` and `background`.
 */
export function unmix(
  seen: number,
  { alpha, foreground, background }: {
    readonly alpha: number;
    readonly foreground: number;
    readonly background: number;
  },
): number {
  const unexplained = seen - alpha * foreground - (1 - alpha) * background;
  return Math.min(1, Math.max(0, foreground + alpha * unexplained));
}

function computeWeightedMeans(colors: ColorPlanes, weights: Plane, radius: number): ColorPlanes {
  const total = computeBoxMeans(weights, radius).data;
  return colors.map(({ data: levels, ...size }) => {
    const weighted = new Float32Array(levels.length);
    for (let i = 0; i < weighted.length; i++) weighted[i] = levels[i]! * weights.data[i]!;
    const { data } = computeBoxMeans({ ...size, data: weighted }, radius);
    for (let i = 0; i < data.length; i++) data[i]! /= total[i]! + LEAST_WEIGHT;
    return { ...size, data };
  }) as unknown as ColorPlanes;
}
