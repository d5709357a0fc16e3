/**
 * Chat with OCR models that find lines of text and read each one (PP-OCR): each line of the answer is a row of the
 * image.
 *
 * @module
 */
import { join } from "node:path";
import type { OpenSessionOptions } from "../../device/backend.ts";
import type { EngineSettings } from "../../base/config.ts";
import { HearthError, startupStep } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { countPixels, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { type ChannelLevels, LineGraph } from "./line_graph.ts";
import type { LineOcrConfig } from "./line_ocr_config.ts";
import { LineReader } from "./line_reader.ts";
import type { Pixels } from "../../media/pixels.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import { joinDeltas, readOcrRequest, RowWriter } from "./ocr_chat.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { LineBox, Point } from "./rotated_rectangle.ts";
import type { ChatEvent, ChatTask, ImagePart, Task } from "../task.ts";

/** Florence-2's name for the task of giving regions with the text. */
const REGION_TASK = "<OCR_WITH_REGION>";

/** Default for the most requests at a time. */
const MAX_REQUESTS = 4;

export type ReadLineOcrConfig = (folder: ModelFolder) => Promise<LineOcrConfig>;

/** A request that is being answered. */
interface RunningRequest {
  readonly task: ChatTask;
  readonly image: ImagePart;
  readonly script: string | undefined;
  /** Whether the answer gives the box of each line. */
  readonly hasRegions: boolean;
  readonly emit: (event: ChatEvent) => void;
}

export class LineOcrModel implements Model {
  readonly kind = "ocr";
  readonly dtype = "fp32";
  readonly contextLength = undefined;
  readonly readsLines = true;
  readonly maxSequences: number;
  readonly #reader: LineReader;
  readonly #imagePreprocessor: ImagePreprocessor;
  readonly #metrics = new LineOcrMetrics();
  readonly metrics = this.#metrics.registry;
  readonly #requests: ActiveRequests;

  private constructor(
    reader: LineReader,
    imagePreprocessor: ImagePreprocessor,
    { maxSequences = MAX_REQUESTS }: EngineSettings,
  ) {
    this.#reader = reader;
    this.#imagePreprocessor = imagePreprocessor;
    this.maxSequences = maxSequences;
    this.#requests = new ActiveRequests(maxSequences, { maxSmall: MAX_SMALL_IMAGE_PIXELS });
    this.#metrics.requests = () => this.#requests.counts;
  }

  /** @throws {StartupError} when the description is incomplete, or a graph cannot be loaded. */
  static async load(context: OpenContext, readConfig: ReadLineOcrConfig): Promise<LineOcrModel> {
    const { folder, engine, onProgress } = context;
    const { detection, classification, recognition } = await readConfig(folder);
    // The detector's activations for one page take 64 MiB, so they are not kept.
    const detector = await openGraph(detection, context, { keepsMemory: false });
    const classifier = classification && await openGraph(classification, context);
    const recognisers = [];
    for (const each of recognition) recognisers.push(await openGraph(each, context));
    const reader = new LineReader({ detector, classifier, recognisers });
    onProgress({ what: "warming up" });
    await warmUp(reader);
    const imagePreprocessor = await ImagePreprocessor.open({ maxPixels: engine.maxImagePixels });
    return new LineOcrModel(reader, imagePreprocessor, engine);
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const { image, text } = readOcrRequest(task.messages);
    const { n } = task.options;
    if (n !== 1) {
      throw new HearthError("invalid_value", `n: this model gives 1 answer, saw ${n}.`, {
        param: "n",
      });
    }
    const hasRegions = text.startsWith(REGION_TASK);
    const wanted = (hasRegions ? text.slice(REGION_TASK.length) : text).trim().toLowerCase();
    // A text that names no script is an instruction, which this model ignores.
    const script = this.#reader.scripts.find((name) => name === wanted);
    return this.#requests.start({
      requestId: task.requestId,
      what: "request",
      emit,
      param: image.param,
      work: countPixels(image.bytes),
      answer: (signal) => this.#answer({ task, image, script, hasRegions, emit }, signal),
    });
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    this.#imagePreprocessor.close();
    await this.#reader.dispose();
  }

  async #answer(
    { task, image, script, hasRegions, emit }: RunningRequest,
    signal: AbortSignal,
  ): Promise<void> {
    const observeImage = this.#metrics.imageSeconds.startTimer();
    const pixels = await this.#imagePreprocessor.call("decode", image, { signal, isGiven: true });
    signal.throwIfAborted();
    emit({ type: "admitted" });
    const numTop = task.options.topLogprobs ?? 0;
    const rows = this.#reader.read(pixels, { script, numTop, signal });
    const boxes: LineBox[] = [];
    const writer = new RowWriter(
      task,
      hasRegions ? joinDeltas(emit, (answer) => formatRegions(answer, { boxes, pixels })) : emit,
    );
    for await (const row of rows) {
      signal.throwIfAborted();
      boxes.push(...row.lines.map(({ box }) => box));
      // With regions, each line becomes a label of its own.
      const written = hasRegions ? row.lines.map((line) => ({ ...row, lines: [line] })) : [row];
      if (!written.every((each) => writer.write(each))) break;
    }
    writer.end();
    observeImage();
    this.#metrics.images.inc();
    this.#metrics.lines.inc(boxes.length);
  }
}

/**
 * Formats lines of text and their boxes as Florence-2 does.
 *
 * @param answer a text with one line per region; it may have been cut short.
 */
function formatRegions(
  answer: string,
  { boxes, pixels: { width, height } }: {
    readonly boxes: readonly LineBox[];
    readonly pixels: Pixels;
  },
): string {
  const labels = answer === "" ? [] : answer.split("\n");
  const within = ([x, y]: Point) => [clamp(x, width), clamp(y, height)];
  const corners = boxes.slice(0, labels.length)
    .map(({ topLeft, topRight, bottomRight, bottomLeft }) =>
      [topLeft, topRight, bottomRight, bottomLeft].flatMap(within)
    );
  return JSON.stringify({ labels, quad_boxes: corners });
}

function clamp(value: number, most: number): number {
  return Math.round(10 * Math.min(most, Math.max(0, value))) / 10;
}

async function openGraph<Config extends { readonly file: string; readonly levels: ChannelLevels }>(
  config: Config,
  { folder, backend, onProgress }: OpenContext,
  options?: OpenSessionOptions,
): Promise<LineGraph<Config>> {
  const { file } = config;
  onProgress({ what: `loading ${file}` });
  const session = await startupStep(
    async () => await backend.openSession(await Deno.readFile(join(folder.path, file)), options),
    (reason) => `${file} cannot be loaded: ${reason}`,
  );
  return new LineGraph(config, { backend, session });
}

/** Runs the model before the first request, on a blank strip, which every recogniser reads as a line. */
async function warmUp(reader: LineReader): Promise<void> {
  const [width, height] = [320, 32];
  const data = new Uint8Array(width * height * 3).fill(255);
  const { signal } = new AbortController();
  const rows = reader.read({ width, height, channels: 3, data }, { numTop: 0, signal });
  for await (const _ of rows);
}

class LineOcrMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were read.");
  readonly lines = this.counter("hearth_lines_total", "Lines of text read in them.");
  readonly imageSeconds = this.histogram(
    "hearth_image_seconds",
    "From the beginning of work on an image to the end of its answer.",
  );

  constructor() {
    super("Images");
  }
}
