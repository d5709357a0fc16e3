/**
 * Reads the text of an image line by line: a detector finds the lines, a recogniser reads each.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import type { LineGraph } from "./line_graph.ts";
import { cutOut, isOneLine, type LineCut, waysToCut } from "./line_cut.ts";
import { rowsOf, skewOf, uprightBoxOf } from "./reading_order.ts";
import type { LineBox } from "./rotated_rectangle.ts";
import { type ClassificationConfig, turnUpright } from "./text_classification.ts";
import { type DetectionConfig, detectLines } from "./text_detection.ts";
import {
  confidenceOf,
  type LineCharacter,
  readLines,
  type RecognitionConfig,
} from "./text_recognition.ts";

/** Reads lines in one script. */
type Recogniser = LineGraph<RecognitionConfig>;

/** Its graphs; it owns all of them. */
interface LineReaderGraphs {
  readonly detector: LineGraph<DetectionConfig>;
  /** Detects upside-down lines; absent if none are expected. */
  readonly classifier: LineGraph<ClassificationConfig> | undefined;
  /** One for each script, at least one. */
  readonly recognisers: readonly Recogniser[];
}

interface ReadOptions {
  /** The script; detected from the image if absent. */
  readonly script?: string | undefined;
  /** Likeliest characters to report with each. */
  readonly numTop: number;
  readonly signal: AbortSignal;
}

/** Lines that were read, as they were cut out, and what reads the others. */
interface Reading {
  readonly recogniser: Recogniser;
  readonly known: Map<Pixels, LineCharacter[]>;
}

interface TextLine {
  readonly characters: readonly LineCharacter[];
  /** Where it is in the image. */
  readonly box: LineBox;
}

/** A row of lines side by side. */
export interface TextRow {
  /** The text of each of the recogniser's classes. */
  readonly characters: readonly string[];
  /** From the left. */
  readonly lines: readonly TextLine[];
}

/** Lines read with less confidence are dropped. */
const MIN_CONFIDENCE = 0.5;
/** Number of lines, the longest, used to detect the script. */
const MAX_SAMPLES = 4;
/** Rows that are read before the first are returned. */
const ROWS_AT_ONCE = 8;
/** Least gain of confidence that means a better reading; a smaller gain may come from missing letters. */
const SURER = 0.02;

export class LineReader {
  readonly #graphs: LineReaderGraphs;

  constructor(graphs: LineReaderGraphs) {
    this.#graphs = graphs;
  }

  get scripts(): string[] {
    return this.#graphs.recognisers.map(({ config }) => config.name);
  }

  /**
   * Reads an image, rows from the top; rows without text are left out.
   *
   * @param image of 3 channels.
   * @throws the signal's reason.
   */
  async *read(image: Pixels, options: ReadOptions): AsyncGenerator<TextRow> {
    const { signal } = options;
    const boxRows = await this.#findRows(image);
    signal.throwIfAborted();
    if (isOneLine(image, boxRows)) {
      return yield* this.#readOneLine(waysToCut(image, boxRows), options);
    }
    const rows = boxRows.map((row) => row.map((box) => ({ box, pixels: cutOut(image, box) })));
    const reading = await this.#begin(rows.flat().map(({ pixels }) => pixels), options);
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
      const some = rows.slice(from, from + ROWS_AT_ONCE);
      await this.#readLines(reading, some.flat().map(({ pixels }) => pixels), options);
      for (const row of some) yield* rowOf(reading, row);
    }
  }

  async dispose(): Promise<void> {
    const { detector, classifier, recognisers } = this.#graphs;
    for (const graph of [detector, classifier, ...recognisers]) await graph?.release();
  }

  /** The lines, in reading order. */
  async #findRows(image: Pixels): Promise<LineBox[][]> {
    const boxes = await detectLines(this.#graphs.detector, image);
    const skew = skewOf(boxes);
    return rowsOf(boxes, (box) => uprightBoxOf(box, skew));
  }

  /** Reads an image of one line whole, and cropped closer; keeps the latter if it is clearly more confident. */
  async *#readOneLine(ways: readonly LineCut[], options: ReadOptions): AsyncGenerator<TextRow> {
    const [whole, closer] = ways;
    // Only the whole image decides the script: confidences of two scripts are only comparable for the same crop.
    const reading = await this.#begin([whole!.pixels], options);
    await this.#readLines(reading, ways.map(({ pixels }) => pixels), options);
    const sureness = ({ pixels }: LineCut) => confidenceOf(reading.known.get(pixels)!);
    const isSurer = closer && sureness(closer) > sureness(whole!) + SURER;
    yield* rowOf(reading, [isSurer ? closer : whole!]);
  }

  /** Begins with the requested recogniser, or the one that reads some of the lines with the most confidence. */
  async #begin(lines: readonly Pixels[], options: ReadOptions): Promise<Reading> {
    const { recognisers } = this.#graphs;
    const [first, ...others] = recognisers;
    const named = recognisers.find(({ config }) => config.name === options.script);
    if (named !== undefined || others.length === 0) {
      return { recogniser: named ?? first!, known: new Map() };
    }
    const longest = lines.toSorted((a, b) => b.width / b.height - a.width / a.height);
    const samples = longest.slice(0, MAX_SAMPLES);
    const upright = await this.#turn(samples, options.signal);
    let best: Reading & { confidence: number } | undefined;
    for (const recogniser of recognisers) {
      const read = await readLines(recogniser, upright, options);
      const confidence = read.reduce((sum, line) => sum + confidenceOf(line), 0);
      const known = new Map(samples.map((line, i) => [line, read[i]!]));
      if (best === undefined || confidence > best.confidence) {
        best = { recogniser, known, confidence };
      }
    }
    return best!;
  }

  /** Reads those of the lines that are not known. */
  async #readLines(
    { recogniser, known }: Reading,
    lines: readonly Pixels[],
    options: ReadOptions,
  ): Promise<void> {
    const unknown = lines.filter((line) => !known.has(line));
    const read = await readLines(recogniser, await this.#turn(unknown, options.signal), options);
    unknown.forEach((line, i) => known.set(line, read[i]!));
  }

  async #turn(lines: readonly Pixels[], signal: AbortSignal): Promise<readonly Pixels[]> {
    const { classifier } = this.#graphs;
    return classifier === undefined ? lines : await turnUpright(classifier, lines, signal);
  }
}

/** A row of lines, without spaces at their ends and without rejected ones; none if that leaves nothing. */
function* rowOf({ recogniser, known }: Reading, cuts: readonly LineCut[]): Generator<TextRow> {
  const { characters } = recogniser.config;
  const isSpace = ({ id }: LineCharacter) => characters[id] === " ";
  const lines = cuts
    .map(({ box, pixels }) => {
      const read = known.get(pixels)!;
      const start = read.findIndex((each) => !isSpace(each)) >>> 0;
      const end = read.findLastIndex((each) => !isSpace(each)) + 1;
      return { box, characters: read.slice(start, end) };
    })
    .filter(({ characters }) => confidenceOf(characters) >= MIN_CONFIDENCE);
  if (lines.length > 0) yield { characters, lines };
}
