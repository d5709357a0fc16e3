/**
 * The configuration of a PP-OCR model without `config.json`. It comes from the names and declarations of its graphs,
 * from the `inference.yml` in the same folder, and from the dictionary, which is in the recogniser's metadata, in
 * `inference.yml` or in a text file.
 *
 * @module
 */
import { basename, dirname, join, posix } from "node:path";
import { runStartupStep, StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import { decodeText, readFields } from "../../graph/file/wire.ts";
import type { LineOcrConfig } from "./line_ocr.ts";
import { choosePaddleGraphs, type PaddleGraph } from "./paddle_graphs.ts";
import type { ClassificationConfig, RecognitionConfig } from "./text_recognition.ts";
import type { DetectionConfig } from "./text_detection.ts";
import { parse, YAMLParseError } from "yaml";
import { type ChannelLevels, readChannelLevels } from "./line_graph.ts";

const IMAGENET = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const;
const HALF = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] } as const;
/** Text files that are not dictionaries. */
const PROSE = /(readme|licen[cs]e|notice|requirements)[^/]*$/i;
/** Field number of `metadata_props` in ModelProto. */
const METADATA_FIELD = 14;
/** Larger values are not sizes, but symbolic sizes that happen to parse as numbers. */
const LARGEST_SIZE = 1e6;

/** @throws {StartupError} when a graph or a dictionary is missing, or the two do not fit together. */
export async function readPaddleConfig(folder: ModelFolder): Promise<LineOcrConfig> {
  const { detection, classification, recognition } = choosePaddleGraphs(folder);
  return {
    detection: readDetection(await describe(folder, detection)),
    classification: classification && readClassification(await describe(folder, classification)),
    recognition: await Promise.all(
      recognition.map(async (graph) => await readRecognition(await describe(folder, graph))),
    ),
  };
}

/** A graph with its folder and its settings. */
interface Described {
  readonly folder: ModelFolder;
  readonly graph: PaddleGraph;
  readonly model: ModelProto;
  /** Settings from the graph's `inference.yml`; empty if there is no such file. */
  readonly settings: PaddleSettings;
}

async function describe(folder: ModelFolder, graph: PaddleGraph): Promise<Described> {
  const path = join(folder.path, graph.file);
  await using files = new FolderFiles(dirname(path), folder.path);
  const model = await readModel(files, basename(path));
  const settingsFiles = [
    graph.file.replace(/\.onnx$/, ".yml"),
    posix.join(posix.dirname(graph.file), "inference.yml"),
  ];
  // In a folder with several graphs, `inference.yml` cannot be assigned to one of them.
  const isAlone =
    [...folder.files].filter((file) =>
      file.endsWith(".onnx") && posix.dirname(file) === posix.dirname(graph.file)
    ).length === 1;
  const file = settingsFiles.slice(0, isAlone ? 2 : 1).find((each) => folder.files.has(each));
  return { folder, graph, model, settings: await PaddleSettings.read(folder, file) };
}

function readDetection({ graph, settings }: Described): DetectionConfig {
  return {
    file: graph.file,
    levels: settings.levels({ ...IMAGENET, isBgr: true }),
    multipleOf: 32,
    maxSide: settings.number(["DetResizeForTest", "resize_long"]) ?? 960,
    threshold: settings.number(["thresh"]) ?? 0.3,
    boxThreshold: settings.number(["box_thresh"]) ?? 0.5,
    unclipRatio: settings.number(["unclip_ratio"]) ?? 1.6,
  };
}

function readClassification({ graph, model, settings }: Described): ClassificationConfig {
  // Newer classifiers are PP-LCNet models, with the preprocessing of image classifiers.
  const isLcNet = /lcnet|textline_ori/i.test(graph.file);
  const [width = isLcNet ? 160 : 192, height = isLcNet ? 80 : 48] =
    settings.numbers(["ResizeImage", "size"]) ?? [];
  return {
    file: graph.file,
    levels: settings.levels(isLcNet ? { ...IMAGENET, isBgr: false } : { ...HALF, isBgr: true }),
    width: readDeclaredSize(model, 3) ?? width,
    height: readDeclaredSize(model, 2) ?? height,
    threshold: 0.9,
  };
}

async function readRecognition(described: Described): Promise<RecognitionConfig> {
  const { graph, model, settings } = described;
  const [, height, minWidth = 320] = settings.numbers(["RecResizeImg", "image_shape"]) ?? [];
  return {
    name: graph.language || "text",
    file: graph.file,
    levels: settings.levels({ ...HALF, isBgr: true }),
    height: readDeclaredSize(model, 2) ?? height ??
      (graph.version > 0 && graph.version < 3 ? 32 : 48),
    minWidth,
    blank: 0,
    characters: await readCharacters(described),
  };
}

/** Reads a size that the graph's input declares, if it is fixed. */
function readDeclaredSize({ graph }: ModelProto, axis: number): number | undefined {
  return toFixedSize(graph.inputs[0]?.shape?.[axis]);
}

function toFixedSize(size: number | string | undefined): number | undefined {
  return typeof size === "number" && size > 0 && size < LARGEST_SIZE ? size : undefined;
}

/** Reads the text of each class: the blank, the dictionary's lines, and a space if the graph has a class for it. */
async function readCharacters({ folder, graph, model, settings }: Described): Promise<string[]> {
  const numClasses = toFixedSize(model.graph.outputs[0]?.shape?.at(-1));
  const found: Dictionary[] = [];
  const inside = readMetadata(model, "character");
  if (inside !== undefined) found.push({ source: "its metadata", lines: splitLines(inside) });
  const { dictionary } = settings;
  if (dictionary !== undefined) found.push({ source: settings.file!, lines: dictionary });
  if (found.length === 0) found.push(...await readDictionaries(folder));
  const fitting = found.filter(({ lines }) =>
    numClasses === undefined || [1, 2].includes(numClasses - lines.length)
  );
  const chosen = fitting.length > 1 ? findNearest(fitting, graph) : fitting[0];
  if (chosen === undefined) {
    throw makeDictionaryError({ folder, graph, numClasses, found, fitting });
  }
  const { lines } = chosen;
  const hasSpace = numClasses === undefined
    ? lines.at(-1) !== " "
    : numClasses === lines.length + 2;
  return ["", ...lines, ...(hasSpace ? [" "] : [])];
}

interface Dictionary {
  readonly source: string;
  readonly lines: readonly string[];
}

/** Finds the dictionary named after the recogniser or its language, or else the only one in the recogniser's folder. */
function findNearest(
  dictionaries: readonly Dictionary[],
  graph: PaddleGraph,
): Dictionary | undefined {
  const stem = graph.file.replace(/\.onnx$/, "");
  const patterns = [
    (source: string) => source === `${stem}.txt`,
    (source: string) => graph.language && posix.basename(source).startsWith(`${graph.language}_`),
    (source: string) => posix.dirname(source) === posix.dirname(graph.file),
  ];
  for (const pattern of patterns) {
    const named = dictionaries.filter(({ source }) => pattern(source));
    if (named.length === 1) return named[0];
  }
  return undefined;
}

function makeDictionaryError({ folder, graph, numClasses, found, fitting }: {
  folder: ModelFolder;
  graph: PaddleGraph;
  numClasses: number | undefined;
  found: readonly Dictionary[];
  fitting: readonly Dictionary[];
}): StartupError {
  const seen = found.map(({ source, lines }) => `${source} (${lines.length} lines)`).join(", ");
  const wanted = numClasses === undefined
    ? "one dictionary with a character per line"
    : `one dictionary of ${numClasses - 2} or ${
      numClasses - 1
    } lines for its ${numClasses} classes`;
  const where = "in its metadata (`character`), in its inference.yml or in a .txt file";
  const problem = fitting.length > 1 ? `several fit: ${seen}` : `saw ${seen || "none"}`;
  return new StartupError(
    `${folder.path}/${graph.file}: want ${wanted}, ${where}; ${problem}.`,
  );
}

async function readDictionaries({ path, files }: ModelFolder): Promise<Dictionary[]> {
  const names = [...files].filter((file) => file.endsWith(".txt") && !PROSE.test(file)).sort();
  return await Promise.all(names.map(async (source) => {
    const lines = splitLines(await Deno.readTextFile(join(path, source)));
    return { source, lines };
  }));
}

function splitLines(text: string): string[] {
  return text.replace(/\r?\n$/, "").split(/\r?\n/);
}

function readMetadata(model: ModelProto, name: string): string | undefined {
  for (const { number, payload } of model.rest) {
    if (number !== METADATA_FIELD) continue;
    const [key, value] = [...readFields(payload)];
    if (key && value && decodeText(key) === name) return decodeText(value);
  }
  return undefined;
}

type Yaml = string | readonly Yaml[] | { readonly [key: string]: Yaml };

/** PaddleOCR's settings for a graph, `inference.yml`; empty if there is no such file. */
class PaddleSettings {
  /** Path in the folder. */
  readonly file: string | undefined;
  readonly #values: Yaml;

  private constructor(file: string | undefined, values: Yaml) {
    this.file = file;
    this.#values = values;
  }

  /**
   * @param file path in the folder.
   * @throws {StartupError} when the file is not valid YAML.
   */
  static async read(folder: ModelFolder, file: string | undefined): Promise<PaddleSettings> {
    if (file === undefined) return new PaddleSettings(undefined, {});
    const path = join(folder.path, file);
    const values: Yaml = await runStartupStep(
      async () => parseYaml(await Deno.readTextFile(path)),
      (reason) => `${path} cannot be read: ${reason}`,
    );
    return new PaddleSettings(file, values);
  }

  /**
   * Reads the number at a path of keys; `undefined` if there is none.
   *
   * @throws {StartupError} when the value is not a number.
   */
  number(path: readonly string[]): number | undefined {
    return this.numbers(path)?.[0];
  }

  /** Reads a list of numbers like {@linkcode number}. */
  numbers(path: readonly string[]): number[] | undefined {
    const values = this.#find(path);
    if (values === undefined) return undefined;
    return [values].flat().map((value) => {
      const number = Number(value);
      if (Number.isFinite(number)) return number;
      // The value is not quoted: a link can make this any file of the machine.
      const seen = value === null ? "null" : typeof value;
      throw new StartupError(`${this.file}: ${path.join(".")}: want a number, saw ${seen}.`);
    });
  }

  /** The lines of the recogniser's dictionary, if the file has one. */
  get dictionary(): readonly string[] | undefined {
    const lines = this.#find(["character_dict"]);
    return Array.isArray(lines) ? lines.map(String) : undefined;
  }

  /** Reads the levels; values that the file lacks are taken from `usual`. */
  levels(usual: Parameters<typeof readChannelLevels>[0]): ChannelLevels {
    const mode = this.#find(["DecodeImage", "img_mode"]);
    return readChannelLevels({
      mean: this.numbers(["NormalizeImage", "mean"]) ?? usual.mean,
      std: this.numbers(["NormalizeImage", "std"]) ?? usual.std,
      isBgr: mode === undefined ? usual.isBgr : mode === "BGR",
    });
  }

  /** Finds the value at a path of keys. The first key may be nested at any depth. */
  #find([key, ...rest]: readonly string[], from: Yaml = this.#values): Yaml | undefined {
    if (key === undefined) return from;
    if (typeof from !== "object" || from === null) return undefined;
    if (!Array.isArray(from) && Object.hasOwn(from, key)) {
      return this.#find(rest, (from as Record<string, Yaml>)[key]!);
    }
    for (const inner of Object.values(from)) {
      const found = this.#find([key, ...rest], inner as Yaml);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** Parses YAML. @throws {StartupError} without the excerpt of the file that the parser's own error contains. */
function parseYaml(text: string): Yaml {
  try {
    // This schema has no types but strings, so that "1" and "no" in a dictionary remain text.
    return parse(text, { schema: "failsafe" });
  } catch (error) {
    // An alias without an anchor fails with another error, which has no position.
    const [position] = error instanceof YAMLParseError ? error.linePos ?? [] : [];
    const where = position === undefined ? "" : ` (line ${position.line} column ${position.col})`;
    throw new StartupError(`it is not valid YAML${where}`);
  }
}
