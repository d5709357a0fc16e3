/**
 * Makes a cut-out follow the picture's own edges, which a mask of a few hundred pixels cannot, and takes what is left of
 * the background out of the subject's rim.
 *
 * Both are worked out at a size close to the mask's; of the whole picture only the rim is looked at.
 *
 * @module
 */
import { resizeNormalize } from "../../kernels/resize_normalize_reference.ts";
import { separateColors, unmix } from "../media/foreground_colors.ts";
import { type ColorPlanes, fitToGuide } from "../media/guided_filter.ts";
import type { Pixels } from "../media/pixels.ts";
import { PlaneSampler } from "../media/plane_sampler.ts";
import { type Plane, resize } from "../media/resample.ts";

/** Bounds of the longer side at which edges are looked for; twice the mask's side between them. */
const LEAST_SIDE = 512;
const MOST_SIDE = 1024;
/** How far a mask's edge may be off, in its own pixels. */
const MASK_RADIUS = 4;
/** Variance of colour below which there is no edge. */
const EPSILON = 1e-4;
/** Alpha closer than this to 0 or 1 is certain. */
const CERTAIN = 0.01;
/** Alpha further than this from 0 and 1 is as the edges say; in between it goes over from one to the other. */
const UNCERTAIN = 0.05;

/** What is known beside the cut-out. */
export interface RefineOptions {
  /** Longer side of the mask that the alpha comes from. */
  readonly maskSide: number;
  /** Alpha that the picture had, which the refined one does not exceed; opaque if absent. */
  readonly ownAlpha?: Uint8Array | undefined;
}

/** Refines a cut-out in place. @param cutOut RGBA. */
export function refineCutOut(cutOut: Pixels, { maskSide, ownAlpha }: RefineOptions): void {
  const side = Math.min(MOST_SIDE, Math.max(LEAST_SIDE, 2 * maskSide));
  const small = fitInto(cutOut, side);
  const colors = shrinkColors(cutOut, small);
  refineAlpha(cutOut, colors, {
    radius: Math.max(2, Math.round(MASK_RADIUS * side / maskSide)),
    ownAlpha,
  });
  decontaminate(cutOut, colors);
}

function refineAlpha(
  cutOut: Pixels,
  colors: ColorPlanes,
  { radius, ownAlpha }: { radius: number; ownAlpha: Uint8Array | undefined },
): void {
  const alpha = shrinkAlpha(cutOut, colors[0]);
  const { factors, constant } = fitToGuide(colors, alpha, { radius, epsilon: EPSILON });
  const [red, green, blue] = factors;
  forEachBetween(
    cutOut,
    { low: 255 * CERTAIN, high: 255 * (1 - CERTAIN) },
    alpha,
    (at, sampler) => {
      const { data } = cutOut;
      const byEdges = (sampler.read(red) * data[at]! + sampler.read(green) * data[at + 1]! +
            sampler.read(blue) * data[at + 2]!) / 255 + sampler.read(constant);
      const old = data[at + 3]! / 255;
      const doubt = (Math.min(old, 1 - old) - CERTAIN) / (UNCERTAIN - CERTAIN);
      const share = Math.min(1, Math.max(0, doubt));
      const refined = old + share * (Math.min(1, Math.max(0, byEdges)) - old);
      const most = ownAlpha?.[at >> 2] ?? 255;
      data[at + 3] = Math.min(most, 255 * refined + 0.5);
    },
  );
}

function decontaminate(cutOut: Pixels, colors: ColorPlanes): void {
  const small = shrinkAlpha(cutOut, colors[0]);
  const { foreground, background } = separateColors(colors, small);
  forEachBetween(cutOut, { low: 0, high: 255 }, small, (at, sampler) => {
    const { data } = cutOut;
    const alpha = data[at + 3]! / 255;
    for (let c = 0; c < 3; c++) {
      const color = unmix(data[at + c]! / 255, {
        alpha,
        foreground: sampler.read(foreground[c]!),
        background: sampler.read(background[c]!),
      });
      data[at + c] = 255 * color + 0.5;
    }
  });
}

/** Calls `visit` for the pixels whose alpha lies between two bounds, with a sampler moved there. */
function forEachBetween(
  { width, height, data }: Pixels,
  { low, high }: { readonly low: number; readonly high: number },
  small: { readonly width: number; readonly height: number },
  visit: (at: number, sampler: PlaneSampler) => void,
): void {
  const sampler = new PlaneSampler({ small, large: { width, height } });
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) {
      const alpha = data[at + 3]!;
      if (alpha <= low || alpha >= high) continue;
      sampler.moveTo(x, y);
      visit(at, sampler);
    }
  }
}

/** The largest size of the same ratio whose sides are at most `side`, and not larger than it is. */
function fitInto(
  { width, height }: Pixels,
  side: number,
): { readonly width: number; readonly height: number } {
  const factor = Math.min(1, side / Math.max(width, height));
  const fit = (length: number) => Math.max(1, Math.round(length * factor));
  return { width: fit(width), height: fit(height) };
}

function shrinkColors(
  cutOut: Pixels,
  { width, height }: { readonly width: number; readonly height: number },
): ColorPlanes {
  const size = width * height;
  const levels = new Float32Array(3 * size);
  resizeNormalize(cutOut, {
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

function shrinkAlpha(
  { width, height, data }: Pixels,
  to: { readonly width: number; readonly height: number },
): Plane {
  const alpha = new Uint8Array(width * height);
  for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3]!;
  const size = { width: to.width, height: to.height };
  const small = resize({ width, height, channels: 1, data: alpha }, {
    ...size,
    filter: "bilinear",
  });
  return { ...size, data: Float32Array.from(small.data, (level) => level / 255) };
}
