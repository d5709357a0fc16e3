/**
 * Finds the lines of text in an image.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { GraphSession } from "../../onnx/runtime/ort.ts";
import type { DetectionConfig } from "./line_ocr_config.ts";
import { stackImages } from "./image_tensor.ts";
import type { Point, Rectangle } from "./smallest_rectangle.ts";
import { findRegions } from "./text_regions.ts";

/** The corners of a line in its image. */
export interface LineBox {
  readonly topLeft: Point;
  readonly topRight: Point;
  readonly bottomRight: Point;
  readonly bottomLeft: Point;
}

/** Its parts; it owns the session. */
export interface LineDetectorParts {
  readonly backend: Backend;
  readonly session: GraphSession;
  readonly config: DetectionConfig;
}

export class LineDetector {
  readonly #parts: LineDetectorParts;

  constructor(parts: LineDetectorParts) {
    this.#parts = parts;
  }

  /** The lines, unordered. @param image of 3 channels. */
  async detect(image: Pixels): Promise<LineBox[]> {
    const { backend, session, config } = this.#parts;
    const [width, height] = this.#sizeOf(image);
    const smaller = resize(image, { width, height, filter: "bilinear" });
    const input = stackImages([smaller], { width, levels: config.levels });
    const outputs = await session.run({ [session.inputs[0]!.name]: input });
    const map = outputs[session.outputs[0]!.name]!;
    const data = await backend.read(map);
    map.dispose();
    const toImage: Point = [image.width / width, image.height / height];
    return findRegions({ width, height, data }, config)
      .map(({ rectangle }) => boxOf(rectangle, toImage));
  }

  async dispose(): Promise<void> {
    await this.#parts.session.release();
  }

  /** The image's own size, or the nearest that the graph supports. */
  #sizeOf({ width, height }: Pixels): readonly [width: number, height: number] {
    const { multipleOf, maxSide } = this.#parts.config;
    const factor = Math.min(1, maxSide / Math.max(width, height));
    const fit = (length: number) =>
      Math.max(multipleOf, Math.round(length * factor / multipleOf) * multipleOf);
    return [fit(width), fit(height)];
  }
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
