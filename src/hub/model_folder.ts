/**
 * A model folder in hub layout: its JSON files and its graphs. Language models may have onnxruntime-genai's
 * `genai_config.json`, which is converted to the fields of `config.json`.
 *
 * @see https://onnxruntime.ai/docs/genai/reference/config.html
 * @module
 */
import { join } from "node:path";
import { type Dtype, DTYPES } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { isRecord } from "../base/json.ts";
import { requireNoPointer } from "../graph/file/external_data.ts";
import { listFiles, listModelFiles } from "./list_files.ts";

/** A parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** The number with this name; `undefined` if there is none. */
export function readNumber(json: Json, name: string): number | undefined {
  const value = json[name];
  return typeof value === "number" ? value : undefined;
}

/** The first number among the fields with these names. @throws {StartupError} when none of them is a number. */
export function requireNumber(json: Json, ...names: readonly string[]): number {
  const found = names.map((name) => readNumber(json, name)).find((value) => value !== undefined);
  if (found !== undefined) return found;
  throw new StartupError(`The model's configuration has no number ${names.join(" or ")}.`);
}

/** The token ids with this name, one or a list of them. Anything that is not an id is left out. */
export function readTokenIds(json: Json, name: string): number[] {
  return [json[name]].flat().filter((id) => typeof id === "number" && id >= 0) as number[];
}

/** The content of a model folder. */
export interface ModelFolder {
  readonly path: string;
  /** The folder's own files, and those a few levels below it (`onnx/model.onnx`). */
  readonly files: ReadonlySet<string>;
  /** The subfolder that holds the settings next to a graph, if the folder itself has no settings. */
  readonly settingsIn?: string | undefined;
  /** The content of `config.json`, with fields that `genai_config.json` adds. */
  readonly config: Json;
  /** The parsed content of the existing {@linkcode IDENTITY_FILES}, by name. */
  readonly identity?: Readonly<Record<string, unknown>> | undefined;
}

/** JSON files besides `config.json` that tell what a folder holds. */
const IDENTITY_FILES = [
  "modules.json",
  "config_sentence_transformers.json",
  "genai_config.json",
] as const;

/** The suffix of the graphs with each dtype. */
const SUFFIXES: Readonly<Record<Dtype, string>> = {
  fp32: "",
  fp16: "_fp16",
  q4: "_q4",
  q4f16: "_q4f16",
  q2: "_q2",
  q2f16: "_q2f16",
  q1: "_q1",
  q1f16: "_q1f16",
  int8: "_int8",
  uint8: "_uint8",
  q8: "_quantized",
  bnb4: "_bnb4",
};

/**
 * Reads a folder's file list and `config.json`.
 *
 * @throws {StartupError} when it is not a model folder.
 */
export async function openFolder(path: string): Promise<ModelFolder> {
  const files = await listFiles(path);
  if (!files.has("config.json")) await readJson(path, "config.json");
  return await describeFolder({ path, files }, (name) => readAnyJson(path, name));
}

/**
 * Opens a folder like {@linkcode openFolder}, but also accepts folders that hold only graphs, and the path of a graph,
 * which is then the whole model. Without a `config.json`, `config` comes from `genai_config.json` or is empty.
 *
 * @throws {StartupError} when there is no graph either.
 */
export async function openAnyFolder(path: string): Promise<ModelFolder> {
  const { folder, files } = await listModelFiles(path);
  requireConfigOrGraphs(path, files);
  return await describeFolder({ path: folder, files }, (name) => readAnyJson(folder, name));
}

/**
 * Describes a folder by its list of files.
 *
 * @param read reads one of the files as JSON.
 * @throws {StartupError} when `config.json` is not an object.
 * @throws what `read` throws.
 */
export async function describeFolder(
  { path, files }: Pick<ModelFolder, "path" | "files">,
  read: (name: string) => Promise<unknown>,
): Promise<ModelFolder> {
  const listed: ModelFolder = { path, files, settingsIn: findSettings(files), config: {} };
  const readAt = async (name: string) => {
    const file = locate(listed, name);
    return file === undefined ? undefined : await read(file);
  };
  const config = await readAt("config.json") ?? {};
  if (!isRecord(config)) {
    throw new StartupError(`${join(path, "config.json")} does not hold a JSON object.`);
  }
  const identity: Record<string, unknown> = {};
  for (const name of IDENTITY_FILES) {
    const content = await readAt(name);
    if (content !== undefined) identity[name] = content;
  }
  return { ...listed, config: withGenaiConfig(config, identity["genai_config.json"]), identity };
}

/** Finds a settings file in the folder itself or next to a graph. @returns its path; `undefined` if there is none. */
export function locate({ files, settingsIn }: ModelFolder, name: string): string | undefined {
  if (files.has(name)) return name;
  const beside = settingsIn === undefined ? undefined : `${settingsIn}/${name}`;
  return beside !== undefined && files.has(beside) ? beside : undefined;
}

/**
 * Finds the settings of a folder that has no tokenizer itself: the first subfolder with a tokenizer and a graph or
 * genai_config.json.
 */
function findSettings(files: ReadonlySet<string>): string | undefined {
  if (files.has("tokenizer.json")) return undefined;
  const places = [...files].filter((file) => /\/([^/]+\.onnx|genai_config\.json)$/.test(file))
    .map((file) => file.slice(0, file.lastIndexOf("/")));
  return places.sort().find((place) => files.has(`${place}/tokenizer.json`));
}

/**
 * Checks that a folder may be a model's.
 *
 * @throws {StartupError} when the folder cannot be read, or has neither `config.json` nor a graph.
 */
export async function requireModelFolder(path: string): Promise<void> {
  requireConfigOrGraphs(path, (await listModelFiles(path)).files);
}

/**
 * Checks the files of a folder or repository.
 *
 * @throws {StartupError} when there is neither `config.json` nor a graph.
 */
export function requireConfigOrGraphs(path: string, files: Iterable<string>): void {
  const names = [...files];
  if (names.some((file) => file === "config.json" || file.endsWith(".onnx"))) return;
  throw new StartupError(
    `${path} has no config.json and no ONNX graph. Hearth runs models in the layout of ` +
      "transformers.js; the names of such models on the Hugging Face hub often end in -ONNX.",
  );
}

/**
 * Reads one of a folder's JSON files.
 *
 * @throws {StartupError} naming the file when it is not a JSON object.
 */
export async function readJson(folderPath: string, name: string): Promise<Json> {
  const value = await readAnyJson(folderPath, name);
  if (isRecord(value)) return value;
  throw new StartupError(`${join(folderPath, name)} does not hold a JSON object.`);
}

/**
 * Reads JSON of any type. It may contain infinities, as Python writes them (Mamba 2's `time_step_limit`), and begin
 * with a byte order mark, which some editors add.
 *
 * @throws {StartupError} naming the file when it cannot be read.
 */
export async function readAnyJson(folderPath: string, name: string): Promise<unknown> {
  const path = join(folderPath, name);
  try {
    const text = (await Deno.readTextFile(path)).replace(/^\ufeff/, "");
    try {
      return JSON.parse(text);
    } catch (error) {
      requireNoPointer(path, text);
      const standard = text.replace(PYTHON_NUMBER, (token) => PYTHON_NUMBERS[token] ?? token);
      if (standard === text) throw error;
      return JSON.parse(standard);
    }
  } catch (error) {
    if (error instanceof StartupError) throw error;
    if (error instanceof Deno.errors.NotFound) {
      throw new StartupError(`${folderPath} has no ${name}, which this model needs.`);
    }
    const reason = error instanceof SyntaxError ? explainJson(error) : (error as Error).message;
    throw new StartupError(`${path} cannot be read: ${reason}`);
  }
}

/**
 * Matches a string, or a number that Python writes although JSON does not allow it. A string that is not closed extends
 * to the end of the text: otherwise each quotation mark in it would be tried as the start of a string.
 */
const PYTHON_NUMBER = /"[^"\\]*(?:\\[^][^"\\]*)*(?:"|\\?$)|-?Infinity|NaN/g;
/** Replacements that JSON allows: `JSON.parse` reads a number that is too large as infinite. */
const PYTHON_NUMBERS: Readonly<Record<string, string>> = {
  "Infinity": "1e999",
  "-Infinity": "-1e999",
  "NaN": "null",
};

/** Explains a JSON syntax error without the part of the text that V8's message quotes. */
function explainJson({ message }: SyntaxError): string {
  const [place = ""] = /\(line \d+ column \d+\)/.exec(message) ?? [];
  return `it is not valid JSON${place === "" ? "" : ` ${place}`}`;
}

/** Reads a settings file. @throws {StartupError} when it is missing or invalid. */
export async function readSettings(folder: ModelFolder, name: string): Promise<Json> {
  return await readJson(folder.path, locate(folder, name) ?? name);
}

/** Reads a settings file, or returns an empty object if it does not exist. */
export async function readOptionalJson(folder: ModelFolder, name: string): Promise<Json> {
  return locate(folder, name) === undefined ? {} : await readSettings(folder, name);
}

/** The path of a graph in a folder: `onnx/model_q4.onnx`. */
export function makeGraphPath(graph: string, dtype: Dtype): string {
  return `onnx/${graph}${SUFFIXES[dtype]}.onnx`;
}

/** The dtypes in which a folder has this graph. */
export function listDtypes(folder: ModelFolder, graph: string): Dtype[] {
  return DTYPES.filter((dtype) => folder.files.has(makeGraphPath(graph, dtype)));
}

/** Whether a folder has a graph whose name begins with `name`, in any dtype. */
export function hasGraph({ files }: ModelFolder, name: string): boolean {
  return [...files].some((file) => file.startsWith(`onnx/${name}`) && file.endsWith(".onnx"));
}

/** The external-data files of a graph: `onnx/model_q4.onnx_data`, `onnx/model_q4.onnx_data_1` …, `model.onnx.data`. */
export function listExternalData(folder: ModelFolder, graphPath: string): string[] {
  const [prefix, other] = [`${graphPath}_data`, `${graphPath}.data`];
  return [...folder.files].filter((file) => file.startsWith(prefix) || file === other).sort();
}

/** Fields of `model` in `genai_config.json`, by their names in `config.json`. */
const MODEL_FIELDS = {
  vocab_size: "vocab_size",
  max_position_embeddings: "context_length",
  bos_token_id: "bos_token_id",
  pad_token_id: "pad_token_id",
} as const;
/** Fields of `model.decoder` in `genai_config.json`, by their names in `config.json`. */
const DECODER_FIELDS = {
  hidden_size: "hidden_size",
  head_dim: "head_size",
  num_attention_heads: "num_attention_heads",
  num_key_value_heads: "num_key_value_heads",
  num_hidden_layers: "num_hidden_layers",
} as const;

/** Parts of `model` that language models do not have. */
const OTHER_PARTS = ["encoder", "vision", "speech", "audio", "encoder_decoder_init"];

/** Adds fields of `genai_config.json` that `config.json` lacks. The tokens that end an answer come from both files. */
export function withGenaiConfig(config: Json, genai: unknown): Json {
  const model = isRecord(genai) && isRecord(genai["model"]) ? genai["model"] : undefined;
  if (model === undefined) return config;
  const decoder = isRecord(model["decoder"]) ? model["decoder"] : {};
  const pick = (from: Json, names: Readonly<Record<string, string>>) =>
    Object.entries(names).flatMap(([name, own]) =>
      from[own] === undefined ? [] : [[name, from[own]]]
    );
  const type = String(model["type"] ?? "");
  const isText = listOtherParts(genai).length === 0;
  const ends = [config["eos_token_id"] ?? [], model["eos_token_id"] ?? []].flat();
  return {
    ...type !== "" && { model_type: type, ...isText && { architectures: [`${type}ForCausalLM`] } },
    ...Object.fromEntries([...pick(model, MODEL_FIELDS), ...pick(decoder, DECODER_FIELDS)]),
    ...config,
    ...ends.length > 0 && { eos_token_id: [...new Set(ends)] },
  };
}

/** Parts of a model in onnxruntime-genai's format that language models do not have, such as `vision`. */
export function listOtherParts(genai: unknown): string[] {
  const model = isRecord(genai) && isRecord(genai["model"]) ? genai["model"] : {};
  const pipeline = isRecord(model["decoder"]) && "pipeline" in model["decoder"] ? ["pipeline"] : [];
  return [...OTHER_PARTS.filter((part) => part in model), ...pipeline];
}

/** The name that `genai_config.json` gives for the file of the decoder's graph, if any. */
export function readGraphName(genai: unknown): string | undefined {
  const model = isRecord(genai) && isRecord(genai["model"]) ? genai["model"] : {};
  const name = isRecord(model["decoder"]) ? model["decoder"]["filename"] : undefined;
  return typeof name === "string" ? name : undefined;
}
