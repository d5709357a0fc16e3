/**
 * Reads cropped text lines in one script.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { StartupError } from "../../errors.ts";
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { GraphSession } from "../../onnx/runtime/ort.ts";
import { type LineCharacter, readCtcLine } from "./ctc_line.ts";
import type { RecognitionConfig } from "./line_ocr_config.ts";
import { stackImages } from "./image_tensor.ts";

/** Its parts; it owns the session. */
export interface LineRecogniserParts {
  readonly backend: Backend;
  readonly session: GraphSession;
  readonly config: RecognitionConfig;
}

/**
 * Widths are padded to a multiple of this, and only lines of equal padded width run together: so no result depends on
 * other lines.
 */
const WIDTH_STEP = 32;
/** Most lines in one run. */
const MAX_LINES = 8;
/** Longest line, as a multiple of its height. */
const MAX_ASPECT = 100;

export class LineRecogniser {
  readonly config: RecognitionConfig;
  readonly #parts: LineRecogniserParts;

  constructor(parts: LineRecogniserParts) {
    this.config = parts.config;
    this.#parts = parts;
  }

  /**
   * Reads lines.
   *
   * @param lines images of 3 channels, text from left to right.
   * @param numTop likeliest characters to report with each.
   * @throws {StartupError} when the graph and the dictionary do not fit together, at the first line.
   * @throws the signal's reason.
   */
  async read(
    lines: readonly Pixels[],
    { numTop, signal }: { readonly numTop: number; readonly signal: AbortSignal },
  ): Promise<LineCharacter[][]> {
    const { height, minWidth } = this.config;
    const scaled = lines.map((line) => {
      const width = Math.ceil(height * Math.min(MAX_ASPECT, line.width / line.height));
      return resize(line, { width, height, filter: "bicubic" });
    });
    const read = new Array<LineCharacter[]>(lines.length);
    const paddedWidth = (line: number) =>
      Math.max(minWidth, Math.ceil(scaled[line]!.width / WIDTH_STEP) * WIDTH_STEP);
    for (const [width, group] of Map.groupBy(scaled.keys(), paddedWidth)) {
      for (let from = 0; from < group.length; from += MAX_LINES) {
        signal.throwIfAborted();
        const batch = group.slice(from, from + MAX_LINES);
        const images = batch.map((line) => scaled[line]!);
        const characters = await this.#run(images, width, numTop);
        batch.forEach((line, row) => read[line] = characters[row]!);
      }
    }
    return read;
  }

  async dispose(): Promise<void> {
    await this.#parts.session.release();
  }

  async #run(
    images: readonly Pixels[],
    width: number,
    numTop: number,
  ): Promise<LineCharacter[][]> {
    const { backend, session, config: { levels, blank, characters } } = this.#parts;
    const input = stackImages(images, { width, levels });
    const outputs = await session.run({ [session.inputs[0]!.name]: input });
    const probabilities = outputs[session.outputs[0]!.name]!;
    const data = await backend.read(probabilities);
    probabilities.dispose();
    const numClasses = characters.length;
    if (probabilities.dims.at(-1) !== numClasses) {
      throw new StartupError(
        `${this.config.file} tells ${
          probabilities.dims.at(-1)
        } characters apart, and its dictionary, with what the ` +
          `folder's config.json adds, has ${numClasses}.`,
      );
    }
    const size = data.length / images.length;
    return images.map((_, row) =>
      readCtcLine(data.subarray(row * size, (row + 1) * size), { numClasses, blank, numTop })
    );
  }
}
