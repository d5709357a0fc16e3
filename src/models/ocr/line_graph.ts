/**
 * The graphs of a line OCR model: one finds lines, one tells which are upside down, one reads them.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { Pixels } from "../../media/pixels.ts";
import { type GraphSession, Tensor } from "../../onnx/runtime/ort.ts";
import type {
  ChannelLevels,
  ClassificationConfig,
  DetectionConfig,
  RecognitionConfig,
} from "./line_ocr_config.ts";
import { resize } from "../../media/resample.ts";
import type { Point, Rectangle } from "./smallest_rectangle.ts";
import { findRegions } from "./text_regions.ts";
import { StartupError } from "../../errors.ts";
import { type LineCharacter, readCtcLine } from "./ctc_line.ts";

export class LineGraph<Config extends { readonly levels: ChannelLevels }> {
  readonly config: Config;
  readonly #backend: Backend;
  readonly #session: GraphSession;

  /** Owns the session from here on. */
  constructor(
    config: Config,
    parts: { readonly backend: Backend; readonly session: GraphSession },
  ) {
    this.config = config;
    this.#backend = parts.backend;
    this.#session = parts.session;
  }

  /**
   * Runs images together.
   *
   * @param images of 3 channels and equal height; padded to `width`.
   * @returns the first output, f32.
   */
  async run(
    images: readonly Pixels[],
    width: number,
  ): Promise<{ readonly data: Float32Array; readonly dims: readonly number[] }> {
    const { inputs: [input], outputs: [output] } = this.#session;
    const stacked = stackImages(images, { width, levels: this.config.levels });
    const tensor = (await this.#session.run({ [input!.name]: stacked }))[output!.name]!;
    const { dims } = tensor;
    const data = await this.#backend.read(tensor);
    tensor.dispose();
    return { data, dims };
  }

  release(): Promise<void> {
    return this.#session.release();
  }
}

/**
 * A batch of images of equal height; narrower ones are padded with zeros on the right.
 *
 * @param images of 3 channels.
 * @returns f32 `[images, 3, height, width]`, on the CPU.
 */
export function stackImages(
  images: readonly Pixels[],
  { width, levels }: { readonly width: number; readonly levels: ChannelLevels },
): Tensor {
  const { height } = images[0]!;
  const { scale, offset, channels } = levels;
  const data = new Float32Array(images.length * 3 * height * width);
  let plane = 0;
  for (const image of images) {
    for (let channel = 0; channel < 3; channel++, plane += height * width) {
      const [factor, addend] = [scale[channel]!, offset[channel]!];
      for (let y = 0; y < height; y++) {
        let from = y * image.width * 3 + channels[channel]!;
        const start = plane + y * width;
        for (let to = start; to < start + image.width; to++, from += 3) {
          data[to] = image.data[from]! * factor + addend;
        }
      }
    }
  }
  return new Tensor("float32", data, [images.length, 3, height, width]);
}

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

/** Most lines in one run. */
const MAX_TURNED_LINES = 32;

/** The lines upright. @param lines images of 3 channels. @throws the signal's reason. */
export async function turnUpright(
  graph: LineGraph<ClassificationConfig>,
  lines: readonly Pixels[],
  signal: AbortSignal,
): Promise<Pixels[]> {
  const { width, height, threshold } = graph.config;
  const turned: Pixels[] = [];
  for (let from = 0; from < lines.length; from += MAX_TURNED_LINES) {
    signal.throwIfAborted();
    const batch = lines.slice(from, from + MAX_TURNED_LINES);
    const scaled = batch.map((line) => {
      const ownWidth = Math.min(width, Math.ceil(height * line.width / line.height));
      return resize(line, { width: ownWidth, height, filter: "bilinear" });
    });
    // Probabilities `[lines, 2]` of upright and upside down.
    const { data } = await graph.run(scaled, width);
    turned.push(
      ...batch.map((line, row) => data[2 * row + 1]! >= threshold ? halfTurn(line) : line),
    );
  }
  return turned;
}

function halfTurn({ width, height, channels, data }: Pixels): Pixels {
  const turned = new Uint8Array(data.length);
  for (let from = 0, to = data.length - channels; to >= 0; from += channels, to -= channels) {
    for (let channel = 0; channel < channels; channel++) {
      turned[to + channel] = data[from + channel]!;
    }
  }
  return { width, height, channels, data: turned };
}

/**
 * Widths are padded to a multiple of this, and only lines of equal padded width run together: so no result depends on
 * other lines.
 */
const WIDTH_STEP = 32;
/** Most lines in one run. */
const MAX_READ_LINES = 8;
/** Longest line, as a multiple of its height. */
const MAX_ASPECT = 100;

/**
 * Reads lines.
 *
 * @param lines images of 3 channels, text from left to right.
 * @param options.numTop likeliest characters to report with each.
 * @throws {StartupError} when the graph and the dictionary do not fit together, at the first line.
 * @throws the signal's reason.
 */
export async function readLines(
  graph: LineGraph<RecognitionConfig>,
  lines: readonly Pixels[],
  { numTop, signal }: { readonly numTop: number; readonly signal: AbortSignal },
): Promise<LineCharacter[][]> {
  const { file, height, minWidth, blank, characters } = graph.config;
  const numClasses = characters.length;
  const scaled = lines.map((line) => {
    const width = Math.ceil(height * Math.min(MAX_ASPECT, line.width / line.height));
    return resize(line, { width, height, filter: "bicubic" });
  });
  const paddedWidth = (line: number) =>
    Math.max(minWidth, Math.ceil(scaled[line]!.width / WIDTH_STEP) * WIDTH_STEP);
  const read = new Array<LineCharacter[]>(lines.length);
  for (const [width, group] of Map.groupBy(scaled.keys(), paddedWidth)) {
    for (let from = 0; from < group.length; from += MAX_READ_LINES) {
      signal.throwIfAborted();
      const batch = group.slice(from, from + MAX_READ_LINES);
      const { data, dims } = await graph.run(batch.map((line) => scaled[line]!), width);
      if (dims.at(-1) !== numClasses) {
        throw new StartupError(
          `${file} tells ${
            dims.at(-1)
          } characters apart, and its dictionary, with what the folder's config.json ` +
            `adds, has ${numClasses}.`,
        );
      }
      const size = data.length / batch.length;
      for (const [row, line] of batch.entries()) {
        const frames = data.subarray(row * size, (row + 1) * size);
        read[line] = readCtcLine(frames, { numClasses, blank, numTop });
      }
    }
  }
  return read;
}
