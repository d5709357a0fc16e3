/**
 * A model folder in hub layout: its JSON files and its graphs.
 *
 * @module
 */
import { join } from "node:path";
import { type Dtype, DTYPES } from "../config.ts";
import { StartupError } from "../errors.ts";

/** A parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object. */
export function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

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
  /** The folder's own files and those below it, one level deep (`onnx/model.onnx`). */
  readonly files: ReadonlySet<string>;
  readonly config: Json;
  /** By name, those of {@linkcode IDENTITY_FILES} that there are, parsed. */
  readonly identity?: Readonly<Record<string, unknown>> | undefined;
}

/** JSON files beside `config.json` that say what a folder holds. */
export const IDENTITY_FILES = ["modules.json", "config_sentence_transformers.json"] as const;

/** The suffix of each dtype's graphs. */
const SUFFIXES: Readonly<Record<Dtype, string>> = {
  fp32: "",
  fp16: "_fp16",
  q4: "_q4",
  q4f16: "_q4f16",
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
  const config = await readJson(path, "config.json");
  return { path, files, config, identity: await readIdentity(path, files) };
}

/**
 * Like {@linkcode openFolder}, but also accepts folders with graphs only, whose `config` is then empty.
 *
 * @throws {StartupError} when it has neither.
 */
export async function openAnyFolder(path: string): Promise<ModelFolder> {
  const files = await listFiles(path);
  requireConfigOrGraphs(path, files);
  const config = files.has("config.json") ? await readJson(path, "config.json") : {};
  return { path, files, config, identity: await readIdentity(path, files) };
}

async function readIdentity(
  path: string,
  files: ReadonlySet<string>,
): Promise<Readonly<Record<string, unknown>>> {
  const there = IDENTITY_FILES.filter((name) => files.has(name));
  const entries = there.map(async (name) => [name, await readAnyJson(path, name)]);
  return Object.fromEntries(await Promise.all(entries));
}

/** @throws {StartupError} when a folder can be no model's: it cannot be read, or has neither `config.json` nor a graph. */
export async function requireModelFolder(path: string): Promise<void> {
  requireConfigOrGraphs(path, await listFiles(path));
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

const READ_FILE = /\.(json|onnx|jinja|txt|ya?ml|bin|npy|model)$|[._]data(_\d+)?$/;

/** @throws {StartupError} for a FIFO, a socket or a device among the files to read: reading it might never end. */
function requireRegular(entry: Deno.DirEntry, path: string): Deno.DirEntry {
  if (entry.isFile || entry.isDirectory || !READ_FILE.test(entry.name)) return entry;
  const target = entry.isSymlink ? statOf(path) : undefined;
  // A dangling link is reported by the reader.
  if (entry.isSymlink && (target === undefined || target.isFile || target.isDirectory)) {
    return entry;
  }
  throw new StartupError(`${path} is a FIFO, a socket or a device: wanted a file.`);
}

function statOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}

async function listFiles(path: string): Promise<Set<string>> {
  const files = new Set<string>();
  try {
    for await (const entry of Deno.readDir(path)) {
      const inner = join(path, entry.name);
      // Caches link to files, and users link to folders.
      const isFolder = entry.isDirectory ||
        (entry.isSymlink && (await Deno.stat(inner).catch(() => undefined))?.isDirectory === true);
      if (!isFolder) files.add(requireRegular(entry, inner).name);
      else {for await (const file of Deno.readDir(inner)) {
          files.add(`${entry.name}/${requireRegular(file, join(inner, file.name)).name}`);
        }}
    }
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(`The model folder ${path} cannot be read: ${(error as Error).message}`);
  }
  return files;
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
    throw new StartupError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Like {@linkcode readJson}, but an empty object if the file does not exist. */
export async function readOptionalJson(folder: ModelFolder, name: string): Promise<Json> {
  return folder.files.has(name) ? await readJson(folder.path, name) : {};
}

/** The path of a graph in a folder: `onnx/model_q4.onnx`. */
export function graphFile(graph: string, dtype: Dtype): string {
  return `onnx/${graph}${SUFFIXES[dtype]}.onnx`;
}

/** The dtypes in which a folder has the graph. */
export function dtypesOf(folder: ModelFolder, graph: string): Dtype[] {
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
