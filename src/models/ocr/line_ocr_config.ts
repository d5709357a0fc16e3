/**
 * The description of a line OCR model: a folder's `config.json` with `"task": "ocr"` and up to three parts:
 * `detection`, `recognition` (one or more, by name), and optionally `classification` of upside-down lines.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { type ChannelLevels, readChannelLevels } from "./line_graph.ts";
import type { ClassificationConfig, RecognitionConfig } from "./text_recognition.ts";
import type { DetectionConfig } from "./text_detection.ts";

type Triple = readonly [number, number, number];

export interface LineOcrConfig {
  readonly detection: DetectionConfig;
  readonly classification: ClassificationConfig | undefined;
  /** Recognisers, at least one. */
  readonly recognition: readonly RecognitionConfig[];
}

/** @throws {StartupError} naming what is missing. */
export async function readLineOcrConfig(folder: ModelFolder): Promise<LineOcrConfig> {
  const { config } = folder;
  const detection = new Section(folder, "detection");
  const classification = "classification" in config
    ? new Section(folder, "classification")
    : undefined;
  const recognition = Object.keys(config["recognition"] as Json)
    .map((name) => new Section(folder, `recognition.${name}`));
  if (recognition.length === 0) {
    throw new StartupError(`${folder.path}/config.json names no recognition.`);
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

  /** The dictionary's lines, with the blank inserted, and a space at the end if the model has one. */
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
      `${this.#folder.path}/config.json: ${this.#path}.${key} wants ${wanted}, has ${
        JSON.stringify(this.#values[key])
      }.`,
    );
  }
}
