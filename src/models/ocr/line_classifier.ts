/**
 * Detects cropped text lines that are upside down.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { GraphSession } from "../../onnx/runtime/ort.ts";
import type { ClassificationConfig } from "./line_ocr_config.ts";
import { stackImages } from "./image_tensor.ts";

/** Its parts; it owns the session. */
export interface LineClassifierParts {
  readonly backend: Backend;
  readonly session: GraphSession;
  readonly config: ClassificationConfig;
}

/** Most lines in one run. */
const MAX_LINES = 32;

export class LineClassifier {
  readonly #parts: LineClassifierParts;

  constructor(parts: LineClassifierParts) {
    this.#parts = parts;
  }

  /** The lines upright. @param lines images of 3 channels. @throws the signal's reason. */
  async turn(lines: readonly Pixels[], signal: AbortSignal): Promise<Pixels[]> {
    const { threshold } = this.#parts.config;
    const turned: Pixels[] = [];
    for (let from = 0; from < lines.length; from += MAX_LINES) {
      signal.throwIfAborted();
      const batch = lines.slice(from, from + MAX_LINES);
      const chances = await this.#run(batch);
      turned.push(...batch.map((line, row) => chances[row]! >= threshold ? halfTurn(line) : line));
    }
    return turned;
  }

  async dispose(): Promise<void> {
    await this.#parts.session.release();
  }

  /** The probability that each is upside down. */
  async #run(lines: readonly Pixels[]): Promise<number[]> {
    const { backend, session, config: { width, height, levels } } = this.#parts;
    const scaled = lines.map((line) => {
      const ownWidth = Math.min(width, Math.ceil(height * line.width / line.height));
      return resize(line, { width: ownWidth, height, filter: "bilinear" });
    });
    const input = stackImages(scaled, { width, levels });
    const outputs = await session.run({ [session.inputs[0]!.name]: input });
    const probabilities = outputs[session.outputs[0]!.name]!;
    const data = await backend.read(probabilities);
    probabilities.dispose();
    return lines.map((_, row) => data[2 * row + 1]!);
  }
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
