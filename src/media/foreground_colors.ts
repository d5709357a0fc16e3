/**
 * Estimates foreground and background colours from an image and its alpha matte.
 *
 * @see M. Forte: Approximate Fast Foreground Colour Estimation, ICIP 2021
 * @module
 */
import { boxMean, type Plane } from "./plane.ts";
import type { ColorPlanes } from "./guided_filter.ts";

/** Window radii of the two rounds, for an image of 1024 pixels on its longer side. */
const RADII = [45, 3] as const;
const REFERENCE_SIDE = 1024;
const LEAST_WEIGHT = 1e-5;

/** Smooth foreground and background colours for every pixel. */
interface SeparatedColors {
  readonly foreground: ColorPlanes;
  readonly background: ColorPlanes;
}

/**
 * Estimates both colours as local means, which a second round with smaller windows refines.
 *
 * @param alpha of the image's size, 0 to 1.
 */
export function separateColors(image: ColorPlanes, alpha: Plane): SeparatedColors {
  const side = Math.max(alpha.width, alpha.height);
  const inverse: Plane = { ...alpha, data: alpha.data.map((value) => 1 - value) };
  let foreground = image;
  let background = image;
  for (const [round, radius] of RADII.entries()) {
    const scaled = Math.max(1, Math.round(radius * side / REFERENCE_SIDE));
    const nearby = weightedMean(foreground, alpha, scaled);
    background = weightedMean(background, inverse, scaled);
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

/** The share of the foreground in a pixel, 0 to 1: the estimate, corrected by what it does not explain. */
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

function weightedMean(colors: ColorPlanes, weights: Plane, radius: number): ColorPlanes {
  const total = boxMean(weights, radius).data;
  return colors.map(({ data: levels, ...size }) => {
    const weighted = new Float32Array(levels.length);
    for (let i = 0; i < weighted.length; i++) weighted[i] = levels[i]! * weights.data[i]!;
    const { data } = boxMean({ ...size, data: weighted }, radius);
    for (let i = 0; i < data.length; i++) data[i]! /= total[i]! + LEAST_WEIGHT;
    return { ...size, data };
  }) as unknown as ColorPlanes;
}
