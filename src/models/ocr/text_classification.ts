/**
 * The second stage of line OCR: which lines look upside down.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { ChannelLevels, LineGraph } from "./line_graph.ts";

export interface ClassificationConfig {
  readonly file: string;
  readonly levels: ChannelLevels;
  readonly width: number;
  readonly height: number;
  /** Probability of being upside down from which a line is turned. */
  readonly threshold: number;
}

/** Most lines in one run. */
const MAX_LINES = 32;

/**
 * Which lines look upside down. PaddleOCR squeezes long lines to the graph's width, as is done here: of those the answer is
 * little more than noise, so it is only a reason to read a line both ways.
 *
 * @param lines images of 3 channels.
 * @throws the signal's reason.
 */
export async function findUpsideDown(
  graph: LineGraph<ClassificationConfig>,
  lines: readonly Pixels[],
  signal: AbortSignal,
): Promise<boolean[]> {
  const { width, height, threshold } = graph.config;
  const found: boolean[] = [];
  for (let from = 0; from < lines.length; from += MAX_LINES) {
    signal.throwIfAborted();
    const batch = lines.slice(from, from + MAX_LINES);
    const scaled = batch.map((line) => {
      const ownWidth = Math.min(width, Math.ceil(height * line.width / line.height));
      return resize(line, { width: ownWidth, height, filter: "bilinear" });
    });
    // Probabilities `[lines, 2]` of upright and upside down.
    const { data } = await graph.run(scaled, width);
    found.push(...batch.map((_, row) => data[2 * row + 1]! >= threshold));
  }
  return found;
}

/** An image turned by a half. */
export function halfTurn({ width, height, channels, data }: Pixels): Pixels {
  const turned = new Uint8Array(data.length);
  for (let from = 0, to = data.length - channels; to >= 0; from += channels, to -= channels) {
    for (let channel = 0; channel < channels; channel++) {
      turned[to + channel] = data[from + channel]!;
    }
  }
  return { width, height, channels, data: turned };
}
