/**
 * OCR models that find lines of text and read each line (PP-OCR). Each line of the answer is a row of the image.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import type { OpenModelOptions } from "../../device/backend.ts";
import type { EngineSettings } from "../../base/config.ts";
import { HearthError, runStartupStep, StartupError } from "../../base/errors.ts";
import { FolderFiles } from "../../graph/file/external_data.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { countPixels, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { type ChannelLevels, LineGraph, readChannelLevels } from "./line_graph.ts";
import { LineReader } from "./line_reader.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import { formatRegions, joinDeltas, readOcrRequest, RowWriter } from "./ocr_chat.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { LineBox } from "./line_boxes.ts";
import type { ChatEvent, ChatTask, ImagePart, Task } from "../task.ts";
import type { ClassificationConfig, RecognitionConfig } from "./text_recognition.ts";
import type { DetectionConfig } from "./text_detection.ts";

/** Florence-2's task of returning text with its regions, which these models support too. */
const REGION_TASK = "<OCR_WITH_REGION>";

/** Default for the maximum number of requests at a time. */
const MAX_REQUESTS = 4;

export type ReadLineOcrConfig = (folder: ModelFolder) => Promise<LineOcrConfig>;

/** A request in progress. */
interface RunningRequest {
  readonly task: ChatTask;
  readonly image: ImagePart;
  readonly script: string | undefined;
  /** Whether the answer includes the box of each line. */
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

  /** @throws {StartupError} when the configuration is incomplete, or a graph cannot be loaded. */
  static async load(context: OpenContext, readConfig: ReadLineOcrConfig): Promise<LineOcrModel> {
    const { folder, engine, onProgress } = context;
    const { detection, classification, recognition } = await readConfig(folder);
    // The detector's memory is not kept between runs, as its activations for one page take 64 MiB.
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
      throw new HearthError("invalid_value", `n: this model returns 1 answer, saw ${n}.`, {
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
      // With regions, each line has its own label.
      const written = hasRegions ? row.lines.map((line) => ({ ...row, lines: [line] })) : [row];
      if (!written.every((each) => writer.write(each))) break;
    }
    writer.end();
    observeImage();
    this.#metrics.images.inc();
    this.#metrics.lines.inc(boxes.length);
  }
}

async function openGraph<Config extends { readonly file: string; readonly levels: ChannelLevels }>(
  config: Config,
  { folder, backend, onProgress }: OpenContext,
  options?: OpenModelOptions,
): Promise<LineGraph<Config>> {
  const { file } = config;
  onProgress({ what: `loading ${file}` });
  await using files = new FolderFiles(join(folder.path, dirname(file)), folder.path);
  const session = await runStartupStep(
    async () => await backend.openModel(await readModel(files, basename(file)), files, options),
    (reason) => `${file} cannot be loaded: ${reason}`,
  );
  return new LineGraph(config, { backend, session });
}

/** Runs the model on a blank strip, which every recogniser reads as a line, to compile the kernels. */
async function warmUp(reader: LineReader): Promise<void> {
  const [width, height] = [320, 32];
  const data = new Uint8Array(width * height * 3).fill(255);
  const { signal } = new AbortController();
  const rows = reader.read({ width, height, channels: 3, data }, { numTop: 0, signal });
  for await (const _ of rows);
}

class LineOcrMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were read.");
  readonly lines = this.counter("hearth_lines_total", "Lines of text that were read.");
  readonly imageSeconds = this.histogram(
    "hearth_image_seconds",
    "Time from the beginning of work on an image to the end of its answer.",
  );

  constructor() {
    super("Images");
  }
}

type Triple = readonly [number, number, number];

/** The configuration of a line OCR model. */
export interface LineOcrConfig {
  readonly detection: DetectionConfig;
  readonly classification: ClassificationConfig | undefined;
  /** Recognisers, at least one. */
  readonly recognition: readonly RecognitionConfig[];
}

/**
 * Reads the configuration from a `config.json` with `"task": "ocr"` and the sections `detection`, `recognition` (one or
 * more recognisers by name) and optionally `classification` (of upside-down lines).
 *
 * @throws {StartupError} naming the field that is missing or invalid.
 */
export async function readLineOcrConfig(folder: ModelFolder): Promise<LineOcrConfig> {
  const { config } = folder;
  const detection = new Section(folder, "detection");
  const classification = "classification" in config
    ? new Section(folder, "classification")
    : undefined;
  const recognition = Object.keys(config["recognition"] as Json)
    .map((name) => new Section(folder, `recognition.${name}`));
  if (recognition.length === 0) {
    throw new StartupError(
      `${folder.path}/config.json: recognition: want at least one recogniser.`,
    );
  }
  return {
    detection: {
      ...detection.graph(),
      multipleOf: detection.number("multiple_of"),
      maxSide: detection.number("max_side"),
      threshold: detection.number("threshold"),
      boxThreshold: detection.number("box_threshold"),
      unclipRatio: detection.number("unclip_ratio"),
    },
    classification: classification && {
      ...classification.graph(),
      width: classification.number("width"),
      height: classification.number("height"),
      threshold: classification.number("threshold"),
    },
    recognition: await Promise.all(recognition.map(async (section) => ({
      name: section.name,
      ...section.graph(),
      height: section.number("height"),
      minWidth: section.number("min_width"),
      blank: section.number("blank_id"),
      characters: await section.characters(),
    }))),
  };
}

/** Reads the fields of a section of `config.json`. Its methods throw a `StartupError` for missing or invalid fields. */
class Section {
  readonly name: string;
  readonly #folder: ModelFolder;
  readonly #path: string;
  readonly #values: Json;

  constructor(folder: ModelFolder, path: string) {
    this.#folder = folder;
    this.#path = path;
    this.name = path.slice(path.lastIndexOf(".") + 1);
    this.#values = path.split(".").reduce((json, key) => (json[key] ?? {}) as Json, folder.config);
  }

  number(key: string): number {
    const value = this.#values[key];
    if (typeof value === "number") return value;
    throw this.#missing(key, "a number");
  }

  graph(): { readonly file: string; readonly levels: ChannelLevels } {
    const rescale = Number(this.#values["rescale_factor"] ?? 1 / 255);
    const [mean, std] = [this.#triple("image_mean"), this.#triple("image_std")];
    const isBgr = this.#folder.config["channel_order"] === "bgr";
    return { file: this.#file("file"), levels: readChannelLevels({ rescale, mean, std, isBgr }) };
  }

  /** Reads the dictionary: its lines, with the blank inserted, and a space at the end if the model has one. */
  async characters(): Promise<string[]> {
    const text = await Deno.readTextFile(join(this.#folder.path, this.#file("dict")));
    const characters = text.replace(/\r?\n$/, "").split(/\r?\n/);
    characters.splice(this.number("blank_id"), 0, "");
    return this.#values["append_space"] === true ? [...characters, " "] : characters;
  }

  #file(key: string): string {
    const file = this.#values[key];
    if (typeof file === "string" && this.#folder.files.has(file)) return file;
    throw this.#missing(key, "a file of the folder");
  }

  #triple(key: string): Triple {
    const values = this.#values[key];
    const isTriple = Array.isArray(values) && values.length === 3 &&
      values.every((value) => typeof value === "number");
    if (isTriple) return values as unknown as Triple;
    throw this.#missing(key, "three numbers");
  }

  #missing(key: string, wanted: string): StartupError {
    return new StartupError(
      `${this.#folder.path}/config.json: ${this.#path}.${key}: want ${wanted}, saw ${
        JSON.stringify(this.#values[key])
      }.`,
    );
  }
}
