/**
 * The resolution at which a model gets pages of documents.
 *
 * @module
 */
import type { ModelKind } from "../../base/config.ts";
import type { Json } from "../../hub/model_folder.ts";
import type { PageResolution } from "../../media/pdf/page_resolution.ts";

/** What small print needs to be read letter by letter, as OCR tools draw pages. */
const READING_DPI = 200;
/** What a question about a page needs: with more, a page takes more tokens than it is worth. */
const LOOKING_DPI = 144;
/** Preprocessors that give a number of pixels call it the longest edge too. */
const MAX_EDGE = 16_384;
/** Pages are stretched to an image of fixed size: their longer side may have more pixels by so much. */
const PAGE_ASPECT = Math.SQRT2;

/**
 * The resolution at which nothing is lost when the model's preprocessor then resizes the page.
 *
 * @param preprocessor its `preprocessor_config.json`; empty if it has none.
 */
export function readPageResolution(
  preprocessor: Json,
  { kind, maxImagePixels }: {
    readonly kind: ModelKind;
    readonly maxImagePixels?: number | undefined;
  },
): PageResolution {
  const size = (preprocessor["size"] ?? {}) as Json;
  const longest = toNumber(size["longest_edge"]);
  const isEdge = longest !== undefined && longest <= MAX_EDGE;
  const fixed = Math.max(toNumber(size["width"]) ?? 0, toNumber(size["height"]) ?? 0);
  const pixels = toNumber(preprocessor["max_pixels"]) ?? toNumber(size["max_pixels"]) ??
    (isEdge ? undefined : longest) ?? Infinity;
  return {
    dpi: kind === "ocr" ? READING_DPI : LOOKING_DPI,
    maxSide: isEdge ? longest : fixed > 0 ? Math.ceil(fixed * PAGE_ASPECT) : undefined,
    maxPixels: Math.min(pixels, maxImagePixels ?? Infinity),
  };
}

function toNumber(value: unknown): number | undefined {
  return typeof value === "number" && value > 0 ? value : undefined;
}
