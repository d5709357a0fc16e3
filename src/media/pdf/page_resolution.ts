/**
 * Computes the size in pixels at which a page of a document is drawn.
 *
 * @module
 */

/** The resolution that suits a model; the strictest limit decides. */
export interface PageResolution {
  /** Pixels per inch. */
  readonly dpi: number;
  /** Most pixels on the longer side. */
  readonly maxSide?: number | undefined;
  /** Most pixels of the page. */
  readonly maxPixels?: number | undefined;
}

/** Width and height, in points of 1/72 inch or in pixels. */
interface PageSize {
  readonly width: number;
  readonly height: number;
}

/** The longest side that is drawn, whatever the model asks for. */
const MAX_SIDE = 16_384;
const POINTS_PER_INCH = 72;

/**
 * The size of a page in pixels.
 *
 * @param page size in points.
 * @returns whole numbers of at least 1.
 * @example
 * ```ts
 * import { sizePage } from "./page_resolution.ts";
 * import assert from "node:assert/strict";
 * assert.deepEqual(sizePage({ width: 595, height: 842 }, { dpi: 144 }), { width: 1190, height: 1684 });
 * assert.deepEqual(sizePage({ width: 595, height: 842 }, { dpi: 200, maxSide: 1024 }), { width: 724, height: 1024 });
 * ```
 */
export function sizePage(
  { width, height }: PageSize,
  { dpi, maxSide = MAX_SIDE, maxPixels = Infinity }: PageResolution,
): PageSize {
  const scale = Math.min(
    dpi / POINTS_PER_INCH,
    Math.min(maxSide, MAX_SIDE) / Math.max(width, height),
    Math.sqrt(maxPixels / (width * height)),
  );
  // The tiny offset keeps rounding errors from adding a pixel.
  const toPixels = (points: number) => Math.max(1, Math.ceil(points * scale - 1e-6));
  const size = { width: toPixels(width), height: toPixels(height) };
  if (size.width * size.height <= maxPixels) return size;
  return { width: Math.max(1, size.width - 1), height: Math.max(1, size.height - 1) };
}
