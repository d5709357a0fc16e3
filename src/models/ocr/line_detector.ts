/**
 * Finds the lines of text in an image.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { LineGraph } from "./line_graph.ts";
import type { DetectionConfig } from "./line_ocr_config.ts";
import type { Point, Rectangle } from "./smallest_rectangle.ts";
import { findRegions } from "./text_regions.ts";

/** The corners of a line in its image. */
export interface LineBox {
  readonly topLeft: Point;
  readonly topRight: Point;
  readonly bottomRight: Point;
  readonly bottomLeft: Point;
}

/** The lines, unordered. @param image of 3 channels. */
export async function detectLines(
  graph: LineGraph<DetectionConfig>,
  image: Pixels,
): Promise<LineBox[]> {
  // The image's own size, or the nearest that the graph supports.
  const { multipleOf, maxSide } = graph.config;
  const factor = Math.min(1, maxSide / Math.max(image.width, image.height));
  const fit = (length: number) =>
    Math.max(multipleOf, Math.round(length * factor / multipleOf) * multipleOf);
  const [width, height] = [fit(image.width), fit(image.height)];
  const smaller = resize(image, { width, height, filter: "bilinear" });
  const { data } = await graph.run([smaller], width);
  const toImage: Point = [image.width / width, image.height / height];
  return findRegions({ width, height, data }, graph.config)
    .map(({ rectangle }) => boxOf(rectangle, toImage));
}

function boxOf(rectangle: Rectangle, [factorX, factorY]: Point): LineBox {
  const { center: [x, y], direction: [ux, uy], width, height } = rectangle;
  const corner = (along: -1 | 1, across: -1 | 1): Point => {
    const [toRight, toBottom] = [along * width / 2, across * height / 2];
    return [
      (x + ux * toRight - uy * toBottom) * factorX,
      (y + uy * toRight + ux * toBottom) * factorY,
    ];
  };
  return {
    topLeft: corner(-1, -1),
    topRight: corner(1, -1),
    bottomRight: corner(1, 1),
    bottomLeft: corner(-1, 1),
  };
}
