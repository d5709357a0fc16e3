/**
 * Reads the text of an image line by line: a detector finds the lines, and a recogniser reads each line.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import type { LineGraph } from "./line_graph.ts";
import {
  cutBothWays,
  cutOut,
  isOneLine,
  isStanding,
  type LineBox,
  type LineCut,
  STANDING_ASPECT,
} from "./line_boxes.ts";
import { isPageStanding, orderPage, rotatePage } from "./page_order.ts";
import {
  chooseReading,
  type ClassificationConfig,
  computeConfidence,
  findUpsideDown,
  type LineCharacter,
  readLines,
  type RecognitionConfig,
  rotateHalf,
} from "./text_recognition.ts";
import { type DetectionConfig, detectLines } from "./text_detection.ts";

/** A graph that reads lines in one script. */
type Recogniser = LineGraph<RecognitionConfig>;

/** The graphs of a reader, which owns them. */
interface LineReaderGraphs {
  readonly detector: LineGraph<DetectionConfig>;
  /** Detects upside-down lines; absent if the model has no such graph. */
  readonly classifier: LineGraph<ClassificationConfig> | undefined;
  /** A recogniser for each script, at least one. */
  readonly recognisers: readonly Recogniser[];
}

interface ReadOptions {
  /** Name of the script to read; detected from the image if absent. */
  readonly script?: string | undefined;
  /** Number of likeliest characters to report for each character. */
  readonly numTop: number;
  readonly signal: AbortSignal;
}

/** The recogniser in use, and the lines that it has read so far, by their pixels. */
interface Reading {
  readonly recogniser: Recogniser;
  readonly known: Map<Pixels, LineCharacter[]>;
}

/** The direction of a page's lines, relative to how they were cut out. */
interface Directions {
  /** Whether most lines were cut out upside down. */
  readonly areUpsideDown: boolean;
  /** Lines whose direction may differ from the page's. They are read in both directions. */
  readonly doubted: ReadonlySet<Pixels>;
}

type PageOptions = ReadOptions & { readonly directions: Directions };

interface TextLine {
  readonly characters: readonly LineCharacter[];
  /** The line's position in the image. */
  readonly box: LineBox;
}

/** A row of the image: lines next to each other. */
export interface TextRow {
  /** The text of each of the recogniser's classes. */
  readonly characters: readonly string[];
  /** The lines, from left to right. */
  readonly lines: readonly TextLine[];
}

/** Lines read with a lower confidence are dropped. */
const MIN_CONFIDENCE = 0.5;
/** Number of lines, the longest ones, on which the script is detected. */
const MAX_SAMPLES = 4;
/** Number of rows that are read together, before the first of them is returned. */
const ROWS_AT_ONCE = 8;
/** Number of lines on which the direction of the page is tested. */
const MAX_DIRECTION_SAMPLES = 6;
/**
 * The least gain in confidence at which another reading counts as better. A smaller gain may come from letters that the
 * other reading lacks.
 */
const MIN_GAIN = 0.02;

export class LineReader {
  readonly #graphs: LineReaderGraphs;

  constructor(graphs: LineReaderGraphs) {
    this.#graphs = graphs;
  }

  get scripts(): string[] {
    return this.#graphs.recognisers.map(({ config }) => config.name);
  }

  /**
   * Reads an image row by row, in reading order. Rows without text are left out.
   *
   * @param image an image of 3 channels.
   * @throws the signal's reason.
   */
  async *read(image: Pixels, options: ReadOptions): AsyncGenerator<TextRow> {
    const { signal } = options;
    const boxRows = await this.#findRows(image);
    signal.throwIfAborted();
    if (isOneLine(image, boxRows)) {
      return yield* this.#readOneLine(cutBothWays(image, boxRows), options);
    }
    const isStandingPage = isPageStanding(boxRows.flat());
    const standingAspect = isStandingPage ? 1 / STANDING_ASPECT : STANDING_ASPECT;
    const cutRows = boxRows.map((row) =>
      row.map((box) => ({ box, pixels: cutOut(image, box, standingAspect) }))
    );
    const cuts = cutRows.flat();
    const reading = await this.#begin(cuts.map(({ pixels }) => pixels), options);
    const directions = await this.#findDirections(reading, { cuts, isStandingPage, options });
    const rows = directions.areUpsideDown ? rotatePage(cutRows) : cutRows;
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
      const some = rows.slice(from, from + ROWS_AT_ONCE);
      const pixels = some.flat().map(({ pixels }) => pixels);
      await this.#readLines(reading, pixels, { ...options, directions });
      for (const row of some) yield* makeRow(reading, row);
    }
  }

  async dispose(): Promise<void> {
    const { detector, classifier, recognisers } = this.#graphs;
    for (const graph of [detector, classifier, ...recognisers]) await graph?.release();
  }

  /** Finds the lines, in reading order. */
  async #findRows(image: Pixels): Promise<LineBox[][]> {
    const boxes = await detectLines(this.#graphs.detector, image);
    return orderPage(boxes);
  }

  /**
   * Reads an image of one line twice: uncropped and cropped. Keeps the cropped reading if it is clearly more confident.
   */
  async *#readOneLine(cuts: readonly LineCut[], options: ReadOptions): AsyncGenerator<TextRow> {
    const [whole, closer] = cuts;
    // The uncropped image decides the script, as confidences of scripts are comparable only for the same pixels.
    const lines = cuts.map(({ pixels }) => pixels);
    const reading = await this.#begin([whole!.pixels], options);
    const isStandingPage = false;
    const directions = await this.#findDirections(reading, {
      cuts,
      isStandingPage,
      options,
    });
    await this.#readLines(reading, lines, { ...options, directions });
    const sureness = ({ pixels }: LineCut) => computeConfidence(reading.known.get(pixels)!);
    const isSurer = closer && sureness(closer) > sureness(whole!) + MIN_GAIN;
    yield* makeRow(reading, [isSurer ? closer : whole!]);
  }

  /** Chooses the requested recogniser, or the one that reads a sample of the lines best. */
  async #begin(lines: readonly Pixels[], options: ReadOptions): Promise<Reading> {
    const { recognisers } = this.#graphs;
    const [first, ...others] = recognisers;
    const named = recognisers.find(({ config }) => config.name === options.script);
    if (named !== undefined || others.length === 0) {
      return { recogniser: named ?? first!, known: new Map() };
    }
    const longest = lines.toSorted((a, b) => b.width / b.height - a.width / a.height);
    const samples = longest.slice(0, MAX_SAMPLES);
    const mayBeUpsideDown = this.#graphs.classifier !== undefined;
    const directions = { areUpsideDown: false, doubted: new Set(mayBeUpsideDown ? samples : []) };
    const readings: LineCharacter[][][] = [];
    for (const recogniser of recognisers) {
      readings.push(await readBothDirections(recogniser, samples, { ...options, directions }));
    }
    const best = chooseReading(samples, readings, recognisers.map(({ config }) => config));
    // If the page may be upside down, these readings must not be kept.
    const known = new Map(
      mayBeUpsideDown ? [] : samples.map((line, i) => [line, readings[best]![i]!]),
    );
    return { recogniser: recognisers[best]!, known };
  }

  /** Reads the lines that have not been read yet. */
  async #readLines(
    { recogniser, known }: Reading,
    lines: readonly Pixels[],
    options: PageOptions,
  ): Promise<void> {
    const unknown = lines.filter((line) => !known.has(line));
    const read = await readBothDirections(recogniser, unknown, options);
    unknown.forEach((line, i) => known.set(line, read[i]!));
  }

  /**
   * Finds the direction of the page. If it may be upside down, some lines are read in both directions, and the
   * recogniser's confidence decides for the whole page. The classifier is not reliable for single lines, so it only
   * marks them as doubtful.
   */
  async #findDirections(
    { recogniser }: Reading,
    { cuts, isStandingPage, options }: {
      readonly cuts: readonly LineCut[];
      /** Whether most lines run down or up the page; their boxes do not show which. */
      readonly isStandingPage: boolean;
      readonly options: ReadOptions;
    },
  ): Promise<Directions> {
    const { classifier } = this.#graphs;
    const lines = cuts.map(({ pixels }) => pixels);
    const found = classifier && await findUpsideDown(classifier, lines, options.signal);
    const mayBeUpsideDown = isStandingPage || found?.includes(true) === true;
    const areUpsideDown = mayBeUpsideDown && await isSurerUpsideDown(recogniser, lines, options);
    const doubted = cuts.filter(({ box }, i) =>
      found !== undefined && found[i] !== areUpsideDown || isStanding(box) && !isStandingPage
    );
    return { areUpsideDown, doubted: new Set(doubted.map(({ pixels }) => pixels)) };
  }
}

/** Whether a sample of the lines is read with more confidence upside down. */
async function isSurerUpsideDown(
  recogniser: Recogniser,
  lines: readonly Pixels[],
  options: ReadOptions,
): Promise<boolean> {
  const step = Math.ceil(lines.length / MAX_DIRECTION_SAMPLES);
  const samples = lines.filter((_, i) => i % step === 0);
  const sum = (read: readonly LineCharacter[][]) =>
    read.reduce((total, line) => total + computeConfidence(line), 0);
  const asTheyAre = sum(await readLines(recogniser, samples, options));
  return sum(await readLines(recogniser, samples.map(rotateHalf), options)) > asTheyAre;
}

/**
 * Reads all lines in the page's direction. Doubtful lines are also read in the other direction, and that reading is
 * kept if it is clearly more confident.
 */
async function readBothDirections(
  recogniser: Recogniser,
  lines: readonly Pixels[],
  { directions: { areUpsideDown, doubted }, ...options }: PageOptions,
): Promise<LineCharacter[][]> {
  const rotate = (line: Pixels, isRotated: boolean) => isRotated ? rotateHalf(line) : line;
  const inDoubt = lines.filter((line) => doubted.has(line));
  const read = await readLines(
    recogniser,
    lines.map((line) => rotate(line, areUpsideDown)),
    options,
  );
  const others = await readLines(
    recogniser,
    inDoubt.map((line) => rotate(line, !areUpsideDown)),
    options,
  );
  const otherByLine = new Map(inDoubt.map((line, i) => [line, others[i]!]));
  return lines.map((line, i) => {
    const other = otherByLine.get(line);
    const isSurer = other !== undefined &&
      computeConfidence(other) > computeConfidence(read[i]!) + MIN_GAIN;
    return isSurer ? other : read[i]!;
  });
}

/**
 * Yields the row that some lines form, without leading and trailing spaces and without lines of low confidence. Yields
 * nothing if no line is left.
 */
function* makeRow(
  { recogniser, known }: Reading,
  cuts: readonly LineCut[],
): Generator<TextRow> {
  const { characters } = recogniser.config;
  const isSpace = ({ id }: LineCharacter) => characters[id] === " ";
  const lines = cuts
    .map(({ box, pixels }) => {
      const read = known.get(pixels)!;
      const start = read.findIndex((each) => !isSpace(each)) >>> 0;
      const end = read.findLastIndex((each) => !isSpace(each)) + 1;
      return { box, characters: read.slice(start, end) };
    })
    .filter(({ characters }) => computeConfidence(characters) >= MIN_CONFIDENCE);
  if (lines.length > 0) yield { characters, lines };
}
