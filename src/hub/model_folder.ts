/**
 * A model folder in hub layout: its JSON files and its graphs.
 *
 * @module
 */
import { join } from "node:path";
import { type Dtype, DTYPES } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { withGenaiConfig } from "./genai_config.ts";
import { isJson, type Json, listFiles, listModelFiles } from "./list_files.ts";

export { isJson, type Json };

/** The number under a name; `undefined` where there is none. */
export function numberAt(json: Json, name: string): number | undefined {
  const value = json[name];
  return typeof value === "number" ? value : undefined;
}

/** The number under the first of these names that has one. @throws {StartupError} naming them, when none has. */
export function requireNumber(json: Json, ...names: readonly string[]): number {
  const found = names.map((name) => numberAt(json, name)).find((value) => value !== undefined);
  if (found !== undefined) return found;
  throw new StartupError(`The folder's configuration gives no ${names.join(" or ")}.`);
}

/** The token ids under a name, one or a list of them; what is no id is left out. */
export function tokensAt(json: Json, name: string): number[] {
  return [json[name]].flat().filter((id) => typeof id === "number" && id >= 0) as number[];
}

/** The content of a model folder. */
export interface ModelFolder {
  readonly path: string;
  /** The folder's own files and those below it, a few levels deep (`onnx/model.onnx`). */
  readonly files: ReadonlySet<string>;
  /** The subfolder with the settings that the folder itself lacks, next to a graph. */
  readonly settingsIn?: string | undefined;
  /** `config.json`, with what `genai_config.json` adds. */
  readonly config: Json;
  /** The parsed content of those {@linkcode IDENTITY_FILES} that exist, by name. */
  readonly identity?: Readonly<Record<string, unknown>> | undefined;
}

/** JSON files beside `config.json` that say what a folder holds. */
const IDENTITY_FILES = [
  "modules.json",
  "config_sentence_transformers.json",
  "genai_config.json",
] as const;

/** The suffix of each dtype's graphs. */
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
 * Like {@linkcode openFolder}, but also accepts folders with graphs only, whose `config` is then empty, or what
 * `genai_config.json` says, and the path of a graph, for a model of nothing else.
 *
 * @throws {StartupError} when it has neither.
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
 * @throws {StartupError} when `config.json` is no object, and what `read` throws.
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
  if (!isJson(config)) throw new StartupError(`${join(path, "config.json")} holds no JSON object.`);
  const identity: Record<string, unknown> = {};
  for (const name of IDENTITY_FILES) {
    const content = await readAt(name);
    if (content !== undefined) identity[name] = content;
  }
  return { ...listed, config: withGenaiConfig(config, identity["genai_config.json"]), identity };
}

/** A settings file's path in a folder: its own, or the one beside a graph; `undefined` if there is none. */
export function locate({ files, settingsIn }: ModelFolder, name: string): string | undefined {
  if (files.has(name)) return name;
  const beside = settingsIn === undefined ? undefined : `${settingsIn}/${name}`;
  return beside !== undefined && files.has(beside) ? beside : undefined;
}

/** The first subfolder that has a graph, or what describes one, beside a tokenizer, where the folder itself has none. */
function findSettings(files: ReadonlySet<string>): string | undefined {
  if (files.has("tokenizer.json")) return undefined;
  const places = [...files].filter((file) => /\/([^/]+\.onnx|genai_config\.json)$/.test(file))
    .map((file) => file.slice(0, file.lastIndexOf("/")));
  return places.sort().find((place) => files.has(`${place}/tokenizer.json`));
}

/** @throws {StartupError} when a folder can be no model's: it cannot be read, or has neither `config.json` nor a graph. */
export async function requireModelFolder(path: string): Promise<void> {
  requireConfigOrGraphs(path, (await listModelFiles(path)).files);
}

/** @throws {StartupError} for a folder or repository that has neither `config.json` nor a graph. */
export function requireConfigOrGraphs(path: string, files: Iterable<string>): void {
  const names = [...files];
  if (names.some((file) => file === "config.json" || file.endsWith(".onnx"))) return;
  throw new StartupError(
    `${path} has no config.json: Hearth runs models in the layout of transformers.js, ` +
      "which on the Hugging Face hub have names that end in -ONNX.",
  );
}

/**
 * Reads one of a folder's JSON files.
 *
 * @throws {StartupError} naming the file when it is not a JSON object.
 */
export async function readJson(folderPath: string, name: string): Promise<Json> {
  const value = await readAnyJson(folderPath, name);
  if (isJson(value)) return value;
  throw new StartupError(`${join(folderPath, name)} holds no JSON object.`);
}

/** Reads JSON of any type. @throws {StartupError} naming the file when it cannot be read. */
export async function readAnyJson(folderPath: string, name: string): Promise<unknown> {
  const path = join(folderPath, name);
  try {
    return JSON.parse(await Deno.readTextFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new StartupError(`${folderPath} has no ${name}, which this model needs.`);
    }
    const reason = error instanceof SyntaxError ? explainJson(error) : (error as Error).message;
    throw new StartupError(`${path} cannot be read: ${reason}`);
  }
}

/** Explains a JSON syntax error without the part of the text that V8's message quotes. */
function explainJson({ message }: SyntaxError): string {
  const [place = ""] = /\(line \d+ column \d+\)/.exec(message) ?? [];
  return `it is no valid JSON${place === "" ? "" : ` ${place}`}`;
}

/** Reads a settings file. @throws {StartupError} when it is missing, too. */
export async function readSettings(folder: ModelFolder, name: string): Promise<Json> {
  return await readJson(folder.path, locate(folder, name) ?? name);
}

/** Like {@linkcode readSettings}, but an empty object if the file does not exist. */
export async function readOptionalJson(folder: ModelFolder, name: string): Promise<Json> {
  return locate(folder, name) === undefined ? {} : await readSettings(folder, name);
}

/** The path of a graph in a folder: `onnx/model_q4.onnx`. */
export function graphFile(graph: string, dtype: Dtype): string {
  return `onnx/${graph}${SUFFIXES[dtype]}.onnx`;
}

/** The dtypes in which a folder has the graph. */
export function listDtypes(folder: ModelFolder, graph: string): Dtype[] {
  return DTYPES.filter((dtype) => folder.files.has(graphFile(graph, dtype)));
}

/** Whether a folder has a graph whose name begins so, in any dtype. */
export function hasGraph({ files }: ModelFolder, name: string): boolean {
  return [...files].some((file) => file.startsWith(`onnx/${name}`) && file.endsWith(".onnx"));
}

/** The external-data files of a graph: `onnx/model_q4.onnx_data`, `onnx/model_q4.onnx_data_1` …, `model.onnx.data`. */
export function externalDataFiles(folder: ModelFolder, graphPath: string): string[] {
  const [prefix, other] = [`${graphPath}_data`, `${graphPath}.data`];
  return [...folder.files].filter((file) => file.startsWith(prefix) || file === other).sort();
}
