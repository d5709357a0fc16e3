/**
 * The second and third stage of line OCR: finding upside-down lines, and reading lines.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { ChannelLevels, LineGraph } from "./line_graph.ts";

export interface RecognitionConfig {
  readonly name: string;
  readonly file: string;
  readonly levels: ChannelLevels;
  readonly height: number;
  readonly minWidth: number;
  readonly blank: number;
  /** The text of each class. */
  readonly characters: readonly string[];
}

/** A recognised character. */
export interface LineCharacter {
  /** Index of its class. */
  readonly id: number;
  /** Probability in the frame in which it begins. */
  readonly probability: number;
  /** The likeliest classes in that frame, most likely first; as many as were requested. */
  readonly top: readonly { readonly id: number; readonly probability: number }[];
}

/**
 * Lines are padded to a multiple of this width, in pixels. Only lines of equal padded width run together, so that no
 * result depends on other lines.
 */
const WIDTH_STEP = 32;
/** Maximum number of lines in one run. */
const MAX_LINES = 8;
/** Width of the longest line, as a multiple of its height; longer ones are squeezed. */
const MAX_ASPECT = 100;

/**
 * Reads lines.
 *
 * @param lines images of 3 channels, with text from left to right.
 * @param options.numTop number of likeliest characters to report for each character.
 * @throws {StartupError} at the first line, when the graph and the dictionary do not fit together.
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
    for (let from = 0; from < group.length; from += MAX_LINES) {
      signal.throwIfAborted();
      const batch = group.slice(from, from + MAX_LINES);
      const { data, dims } = await graph.run(batch.map((line) => scaled[line]!), width);
      if (dims.at(-1) !== numClasses) {
        throw new StartupError(
          `${file} has ${
            dims.at(-1)
          } classes, but its dictionary, with the blank and the space that the ` +
            `configuration adds, has ${numClasses} characters.`,
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

/**
 * Decodes a line by CTC's best path: takes the likeliest class of each frame, merges repetitions and leaves out blanks
 * (A. Graves et al. 2006). Pure.
 *
 * @param frames f32 `[frames, classes]`, probabilities.
 */
function readCtcLine(frames: Float32Array, options: {
  readonly numClasses: number;
  readonly blank: number;
  /** Number of likeliest classes to report. */
  readonly numTop: number;
}): LineCharacter[] {
  const { numClasses, blank, numTop } = options;
  const characters: LineCharacter[] = [];
  let last = blank;
  for (let start = 0; start < frames.length; start += numClasses) {
    const classes = frames.subarray(start, start + numClasses);
    const id = findLikeliest(classes);
    if (id !== blank && id !== last) {
      characters.push({ id, probability: classes[id]!, top: findTop(classes, numTop) });
    }
    last = id;
  }
  return characters;
}

/** Computes the mean probability of the characters; 0 if there are none. */
export function computeConfidence(characters: readonly LineCharacter[]): number {
  const sum = characters.reduce((total, { probability }) => total + probability, 0);
  return characters.length === 0 ? 0 : sum / characters.length;
}

/** Width of the widest characters as a multiple of the line's height. */
const WIDEST_CHARACTER = 1.2;

/**
 * Chooses among several recognisers by their readings of the same lines: the highest sum of confidences wins. Pure.
 *
 * A line that two recognisers read alike, as often with digits, gives both the same confidence. A reading with fewer
 * characters than the line has room for counts less, because a recogniser leaves out characters that it does not know.
 *
 * @param readings by recogniser, then by line.
 * @returns the index of the recogniser, the first one among equals.
 */
export function chooseReading(
  lines: readonly Pick<Pixels, "width" | "height">[],
  readings: readonly (readonly (readonly LineCharacter[])[])[],
  recognisers: readonly Pick<RecognitionConfig, "characters">[],
): number {
  const sums = recognisers.map(() => 0);
  lines.forEach(({ width, height }, line) => {
    const room = width / height / WIDEST_CHARACTER;
    const bestByText = new Map<string, number>();
    const texts = recognisers.map(({ characters }, i) => {
      const read = readings[i]![line]!;
      const text = read.map(({ id }) => characters[id]).join("")
        .normalize("NFKC").replaceAll(/\s/g, "").toLowerCase();
      const confidence = computeConfidence(read) * Math.min(1, read.length / room);
      bestByText.set(text, Math.max(bestByText.get(text) ?? 0, confidence));
      return text;
    });
    texts.forEach((text, i) => sums[i]! += bestByText.get(text)!);
  });
  return sums.indexOf(Math.max(...sums));
}

function findLikeliest(classes: Float32Array): number {
  let best = 0;
  for (let id = 1; id < classes.length; id++) if (classes[id]! > classes[best]!) best = id;
  return best;
}

function findTop(classes: Float32Array, count: number): LineCharacter["top"] {
  if (count === 0) return [];
  return [...classes].map((probability, id) => ({ id, probability }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, count);
}

export interface ClassificationConfig {
  readonly file: string;
  readonly levels: ChannelLevels;
  readonly width: number;
  readonly height: number;
  /** A line counts as upside down if the probability is at least this. */
  readonly threshold: number;
}

/** Maximum number of lines in one run. */
const MAX_CLASSIFIED_LINES = 32;

/**
 * Finds out which lines look upside down. As in PaddleOCR, long lines are squeezed to the graph's width, so for them
 * the result is little more than noise. It only decides which lines are read in both directions.
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
  for (let from = 0; from < lines.length; from += MAX_CLASSIFIED_LINES) {
    signal.throwIfAborted();
    const batch = lines.slice(from, from + MAX_CLASSIFIED_LINES);
    const scaled = batch.map((line) => {
      const ownWidth = Math.min(width, Math.ceil(height * line.width / line.height));
      return resize(line, { width: ownWidth, height, filter: "bilinear" });
    });
    // `[lines, 2]`: the probabilities that the line is upright and that it is upside down.
    const { data } = await graph.run(scaled, width);
    found.push(...batch.map((_, row) => data[2 * row + 1]! >= threshold));
  }
  return found;
}

/** Rotates an image by 180°. */
export function rotateHalf({ width, height, channels, data }: Pixels): Pixels {
  const rotated = new Uint8Array(data.length);
  for (let from = 0, to = data.length - channels; to >= 0; from += channels, to -= channels) {
    for (let channel = 0; channel < channels; channel++) {
      rotated[to + channel] = data[from + channel]!;
    }
  }
  return { width, height, channels, data: rotated };
}
