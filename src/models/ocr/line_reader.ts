/**
 * Reads the text of an image line by line: a detector finds the lines, a recogniser reads each.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import type { LineGraph } from "./line_graph.ts";
import {
  cutOut,
  isOneLine,
  type LineCut,
  rowsOf,
  skewOf,
  uprightBoxOf,
  waysToCut,
} from "./line_cut.ts";
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

/** How to read an image. */
interface ReadOptions {
  /** The script; detected from the image if absent. */
  readonly script?: string | undefined;
  /** Likeliest characters to report with each. */
  readonly numTop: number;
  readonly signal: AbortSignal;
}

/** A line as it was read. */
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

  /** Names of the scripts. */
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
      return yield* this.#readLine(waysToCut(image, boxRows), options);
    }
    const rows = boxRows.map((row) => row.map((box) => ({ box, pixels: cutOut(image, box) })));
    const lines = rows.flat().map(({ pixels }) => pixels);
    const { recogniser, known } = await this.#chooseRecogniser(lines, options);
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
      const some = rows.slice(from, from + ROWS_AT_ONCE);
      const unknown = some.flat().map(({ pixels }) => pixels).filter((line) => !known.has(line));
      const read = await readLines(recogniser, await this.#turn(unknown, signal), options);
      unknown.forEach((line, i) => known.set(line, read[i]!));
      for (const row of some) {
        const read = row.map(({ box, pixels }) => ({ box, characters: known.get(pixels)! }));
        yield* rowOf(recogniser, read);
      }
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
  async *#readLine(
    [whole, ...others]: readonly LineCut[],
    options: ReadOptions,
  ): AsyncGenerator<TextRow> {
    // Only the whole image decides the script: confidences of two scripts are only comparable for the same crop.
    const { recogniser, known } = await this.#chooseRecogniser([whole!.pixels], options);
    const unknown = known.has(whole!.pixels) ? others : [whole!, ...others];
    const upright = await this.#turn(unknown.map(({ pixels }) => pixels), options.signal);
    const [first, closer] = [...known.values(), ...await readLines(recogniser, upright, options)];
    const isSurer = closer && confidenceOf(closer) > confidenceOf(first!) + SURER;
    const line = isSurer
      ? { box: others[0]!.box, characters: closer }
      : { box: whole!.box, characters: first! };
    yield* rowOf(recogniser, [line]);
  }

  /** The requested recogniser, or the one that reads some of the lines with the most confidence; and its readings. */
  async #chooseRecogniser(
    lines: readonly Pixels[],
    options: ReadOptions,
  ): Promise<{ recogniser: Recogniser; known: Map<Pixels, LineCharacter[]> }> {
    const { recognisers } = this.#graphs;
    const [first, ...others] = recognisers;
    const named = recognisers.find(({ config }) => config.name === options.script);
    if (named !== undefined || others.length === 0) {
      return { recogniser: named ?? first!, known: new Map() };
    }
    const longest = lines.toSorted((a, b) => b.width / b.height - a.width / a.height);
    const samples = longest.slice(0, MAX_SAMPLES);
    const upright = await this.#turn(samples, options.signal);
    let best = { recogniser: first!, read: [] as LineCharacter[][], confidence: -1 };
    for (const recogniser of recognisers) {
      const read = await readLines(recogniser, upright, options);
      const confidence = read.reduce((sum, line) => sum + confidenceOf(line), 0);
      if (confidence > best.confidence) best = { recogniser, read, confidence };
    }
    const known = new Map(samples.map((line, i) => [line, best.read[i]!]));
    return { recogniser: best.recogniser, known };
  }

  async #turn(lines: readonly Pixels[], signal: AbortSignal): Promise<readonly Pixels[]> {
    const { classifier } = this.#graphs;
    return classifier === undefined ? lines : await turnUpright(classifier, lines, signal);
  }
}

/** A row of readings, without spaces at the ends of lines and without rejected lines; none if that leaves nothing. */
function* rowOf({ config }: Recogniser, read: readonly TextLine[]): Generator<TextRow> {
  const isSpace = ({ id }: LineCharacter) => config.characters[id] === " ";
  const lines = read
    .map(({ box, characters }) => ({
      box,
      characters: characters.slice(
        characters.findIndex((each) => !isSpace(each)) >>> 0,
        characters.findLastIndex((each) => !isSpace(each)) + 1,
      ),
    }))
    .filter(({ characters }) => confidenceOf(characters) >= MIN_CONFIDENCE);
  if (lines.length > 0) yield { characters: config.characters, lines };
}
