/**
 * Reads the text of an image line by line: a detector finds the lines, a recogniser reads each.
 *
 * @module
 */
import { crop } from "../../media/crop.ts";
import type { Pixels } from "../../media/pixels.ts";
import { rectify } from "../../media/rectify.ts";
import { confidenceOf, type LineCharacter } from "./ctc_line.ts";
import type { LineClassifier } from "./line_classifier.ts";
import type { LineBox, LineDetector } from "./line_detector.ts";
import type { LineRecogniser } from "./line_recogniser.ts";
import { rowsOf, type UprightBox } from "./reading_order.ts";
import type { Point } from "./smallest_rectangle.ts";

/** Its parts; it owns all of them. */
export interface LineReaderParts {
  readonly detector: LineDetector;
  /** Detects upside-down lines; absent if none are expected. */
  readonly classifier: LineClassifier | undefined;
  /** One for each script, at least one. */
  readonly recognisers: readonly LineRecogniser[];
}

/** How to read an image. */
export interface ReadOptions {
  /** The script; detected from the image if absent. */
  readonly script?: string | undefined;
  /** Likeliest characters to report with each. */
  readonly numTop: number;
  readonly signal: AbortSignal;
}

/** The text of a row of lines side by side. */
export interface TextRow {
  readonly recogniser: LineRecogniser;
  /** The characters of each line, from the left. */
  readonly lines: readonly (readonly LineCharacter[])[];
}

/** Lines read with less confidence are dropped. */
const MIN_CONFIDENCE = 0.5;
/** Number of lines, the longest, used to detect the script. */
const MAX_SAMPLES = 4;
/** Rows that are read before the first are returned. */
const ROWS_AT_ONCE = 8;
/** A line with at least this share of the image's height is the only one. */
const CLOSE_CUT = 0.5;
/** Least gain of confidence that means a better reading; a smaller gain may come from missing letters. */
const SURER = 0.02;
/** Images with a larger ratio of width to height may be single lines. */
const LINE_ASPECT = 2;
/** Lines with a larger ratio of height to width are vertical. */
const STANDING_ASPECT = 1.5;

export class LineReader {
  readonly #parts: LineReaderParts;

  constructor(parts: LineReaderParts) {
    this.#parts = parts;
  }

  /** Names of the scripts. */
  get scripts(): string[] {
    return this.#parts.recognisers.map(({ config }) => config.name);
  }

  /**
   * Reads an image, rows from the top; rows without text are left out.
   *
   * @param image of 3 channels.
   * @throws the signal's reason.
   */
  async *read(image: Pixels, options: ReadOptions): AsyncGenerator<TextRow> {
    const { signal, numTop } = options;
    const boxRows = await this.#findRows(image);
    signal.throwIfAborted();
    if (isOneLine(image, boxRows)) {
      return yield* this.#readLine(waysToCut(image, boxRows), options);
    }
    const rows = boxRows.map((row) => row.map((box) => cutOut(image, box)));
    const { recogniser, known } = await this.#chooseRecogniser(rows.flat(), options);
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
      const some = rows.slice(from, from + ROWS_AT_ONCE);
      const unknown = some.flat().filter((line) => !known.has(line));
      const read = await recogniser.read(await this.#turn(unknown, signal), { numTop, signal });
      unknown.forEach((line, i) => known.set(line, read[i]!));
      for (const row of some) yield* rowOf(recogniser, row.map((line) => known.get(line)!));
    }
  }

  async dispose(): Promise<void> {
    const { detector, classifier, recognisers } = this.#parts;
    await detector.dispose();
    await classifier?.dispose();
    for (const recogniser of recognisers) await recogniser.dispose();
  }

  /** The lines, in reading order. */
  async #findRows(image: Pixels): Promise<LineBox[][]> {
    const boxes = await this.#parts.detector.detect(image);
    const skew = skewOf(boxes);
    return rowsOf(boxes, (box) => uprightBoxOf(box, skew));
  }

  /** Reads an image of one line whole, and cropped closer; keeps the latter if it is clearly more confident. */
  async *#readLine(
    [whole, ...others]: readonly Pixels[],
    options: ReadOptions,
  ): AsyncGenerator<TextRow> {
    // Only the whole image decides the script: confidences of two scripts are only comparable for the same crop.
    const { recogniser, known } = await this.#chooseRecogniser([whole!], options);
    const unknown = known.has(whole!) ? others : [whole!, ...others];
    const upright = await this.#turn(unknown, options.signal);
    const [first, closer] = [...known.values(), ...await recogniser.read(upright, options)];
    const isSurer = closer && confidenceOf(closer) > confidenceOf(first!) + SURER;
    yield* rowOf(recogniser, [isSurer ? closer : first!]);
  }

  /** The requested recogniser, or the one that reads some of the lines with the most confidence; and its readings. */
  async #chooseRecogniser(
    lines: readonly Pixels[],
    { script, numTop, signal }: ReadOptions,
  ): Promise<{ recogniser: LineRecogniser; known: Map<Pixels, LineCharacter[]> }> {
    const { recognisers } = this.#parts;
    const [first, ...others] = recognisers;
    const named = recognisers.find(({ config }) => config.name === script);
    if (named !== undefined || others.length === 0) {
      return { recogniser: named ?? first!, known: new Map() };
    }
    const longest = lines.toSorted((a, b) => b.width / b.height - a.width / a.height);
    const samples = longest.slice(0, MAX_SAMPLES);
    const upright = await this.#turn(samples, signal);
    let best = { recogniser: first!, read: [] as LineCharacter[][], confidence: -1 };
    for (const recogniser of recognisers) {
      const read = await recogniser.read(upright, { numTop, signal });
      const confidence = read.reduce((sum, line) => sum + confidenceOf(line), 0);
      if (confidence > best.confidence) best = { recogniser, read, confidence };
    }
    const known = new Map(samples.map((line, i) => [line, best.read[i]!]));
    return { recogniser: best.recogniser, known };
  }

  async #turn(lines: readonly Pixels[], signal: AbortSignal): Promise<readonly Pixels[]> {
    return await this.#parts.classifier?.turn(lines, signal) ?? lines;
  }
}

/**
 * Whether an image is one line of text, cropped so closely that a detector, which needs margins, may find only parts of
 * it.
 */
function isOneLine(image: Pixels, rows: readonly (readonly LineBox[])[]): boolean {
  const [row, ...others] = rows;
  if (others.length > 0 || image.width < LINE_ASPECT * image.height) return false;
  const heights = (row ?? []).map((box) => uprightBoxOf(box, 0))
    .map(({ top, bottom }) => bottom - top);
  return row === undefined || Math.max(...heights) >= CLOSE_CUT * image.height;
}

/** An image of one line whole, and cropped to the line, which makes letters larger. */
function waysToCut(image: Pixels, [row]: readonly (readonly LineBox[])[]): Pixels[] {
  if (row === undefined) return [image];
  const boxes = row.map((box) => uprightBoxOf(box, 0));
  const top = Math.max(0, Math.floor(Math.min(...boxes.map((box) => box.top))));
  const bottom = Math.min(image.height, Math.ceil(Math.max(...boxes.map((box) => box.bottom))));
  return [image, crop(image, [0, top, image.width, bottom])];
}

/** A row of readings, without spaces at the ends of lines and without rejected lines; none if that leaves nothing. */
function* rowOf(
  recogniser: LineRecogniser,
  read: readonly LineCharacter[][],
): Generator<TextRow> {
  const isSpace = ({ id }: LineCharacter) => recogniser.config.characters[id] === " ";
  const lines = read
    .map((line) =>
      line.slice(
        line.findIndex((each) => !isSpace(each)) >>> 0,
        line.findLastIndex((each) => !isSpace(each)) + 1,
      )
    )
    .filter((line) => confidenceOf(line) >= MIN_CONFIDENCE);
  if (lines.length > 0) yield { recogniser, lines };
}

/** The rotation of a page in radians: the median of its lines', weighted by length. */
function skewOf(boxes: readonly LineBox[]): number {
  const lines = boxes.map(({ topLeft, topRight }) => ({
    angle: Math.atan2(topRight[1] - topLeft[1], topRight[0] - topLeft[0]),
    length: distance(topLeft, topRight),
  })).sort((a, b) => a.angle - b.angle);
  let rest = lines.reduce((sum, { length }) => sum + length, 0) / 2;
  return lines.find(({ length }) => (rest -= length) <= 0)?.angle ?? 0;
}

/** The box around a line on the page turned upright. */
function uprightBoxOf(
  { topLeft, topRight, bottomRight, bottomLeft }: LineBox,
  skew: number,
): UprightBox {
  const corners = [topLeft, topRight, bottomRight, bottomLeft];
  const [cos, sin] = [Math.cos(skew), Math.sin(skew)];
  const xs = corners.map(([x, y]) => x * cos + y * sin);
  const ys = corners.map(([x, y]) => y * cos - x * sin);
  return {
    left: Math.min(...xs),
    top: Math.min(...ys),
    right: Math.max(...xs),
    bottom: Math.max(...ys),
  };
}

function cutOut(image: Pixels, box: LineBox): Pixels {
  const { topLeft, topRight, bottomRight, bottomLeft } = snap(box);
  const width = Math.max(1, Math.round(distance(topLeft, topRight)));
  const height = Math.max(1, Math.round(distance(topLeft, bottomLeft)));
  if (height < STANDING_ASPECT * width) {
    return rectify(image, { topLeft, topRight, bottomLeft, width, height });
  }
  // Vertical text, read from below: its right side becomes the top.
  return rectify(image, {
    topLeft: topRight,
    topRight: bottomRight,
    bottomLeft: topLeft,
    width: height,
    height: width,
  });
}

/** Snaps horizontal lines to whole pixels, so that cropping does not blur them. */
function snap(box: LineBox): LineBox {
  const { topLeft, topRight, bottomRight, bottomLeft } = box;
  if (Math.abs(topLeft[1] - topRight[1]) >= 0.5) return box;
  const [left, top] = [Math.round(topLeft[0]), Math.round(topLeft[1])];
  const [right, bottom] = [Math.round(bottomRight[0]), Math.round(bottomRight[1])];
  if (Math.abs(topLeft[0] - bottomLeft[0]) >= 0.5) return box;
  return {
    topLeft: [left, top],
    topRight: [right, top],
    bottomRight: [right, bottom],
    bottomLeft: [left, bottom],
  };
}

function distance([ax, ay]: Point, [bx, by]: Point): number {
  return Math.hypot(bx - ax, by - ay);
}
