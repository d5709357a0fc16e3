/**
 * Lists the files in a model's folder.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { StartupError } from "../base/errors.ts";
import { requireOwnFile } from "../base/own_file.ts";

/** Matches the names of files that a model may be read from. */
export const READ_FILE = /\.(json|onnx|jinja|txt|ya?ml|bin|npy|model)$|[._]data(_\d+)?$/;

/** Refuses a FIFO, a socket or a device among the files, because reading it might never end. @throws {StartupError} */
function requireRegular(entry: Deno.DirEntry, path: string): void {
  if (entry.isFile || entry.isDirectory || !READ_FILE.test(entry.name)) return;
  const target = entry.isSymlink ? stat(path) : undefined;
  // A dangling link is reported by the reader.
  if (entry.isSymlink && (target === undefined || target.isFile || target.isDirectory)) return;
  throw new StartupError(`${path} is a FIFO, a socket or a device: wanted a file.`);
}

function stat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}

/** Most levels of subfolders: `onnxruntime/cpu_and_mobile/cpu-int4/model.onnx` is the deepest known. */
const MAX_DEPTH = 4;
/** A folder with more files than this is not a model's. */
const MAX_FILES = 20_000;

/**
 * Lists the files in a folder, and a few levels below it, by their paths. Leaves out folders whose names begin with a
 * dot.
 *
 * @throws {StartupError} when the folder cannot be read, something in it is not a regular file, or a link leads out of
 * it.
 */
export async function listFiles(path: string): Promise<Set<string>> {
  const files = new Set<string>();
  try {
    await addFiles(files, path, "");
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(`The model folder ${path} cannot be read: ${(error as Error).message}`);
  }
  return files;
}

/** A model's folder, and the files in it that belong to the model. */
export interface ModelFiles {
  readonly folder: string;
  readonly files: Set<string>;
}

/**
 * Lists a model's files. If a graph is named (`models/u2net.onnx`), they are that graph and the files whose names begin
 * with its name, which may hold its weights. Other graphs in the folder are other models.
 *
 * @throws {StartupError} as {@linkcode listFiles} does.
 */
export async function listModelFiles(path: string): Promise<ModelFiles> {
  if (!await isGraphFile(path)) return { folder: path, files: await listFiles(path) };
  const [folder, graph] = [dirname(path), basename(path)];
  const files = new Set<string>();
  for await (const { name } of Deno.readDir(folder)) {
    if (name === graph || /^[._]data/.test(name.slice(graph.length)) && name.startsWith(graph)) {
      files.add(name);
    }
  }
  return { folder, files };
}

/** Whether a path names a graph rather than a folder. */
export async function isGraphFile(path: string): Promise<boolean> {
  if (!path.endsWith(".onnx")) return false;
  return (await Deno.stat(path).catch(() => undefined))?.isFile === true;
}

async function addFiles(files: Set<string>, path: string, below: string): Promise<void> {
  const depth = below.split("/").length - 1;
  for await (const entry of Deno.readDir(join(path, below))) {
    const inner = join(path, below, entry.name);
    const target = entry.isSymlink ? stat(inner) : undefined;
    const isFolder = entry.isDirectory || target?.isDirectory === true;
    const isHidden = entry.name.startsWith(".");
    if (!isFolder) requireRegular(entry, inner);
    if (target !== undefined) await requireOwnFile(inner, path);
    if (!isFolder) files.add(below + entry.name);
    else if (depth < MAX_DEPTH && !isHidden) await addFiles(files, path, `${below}${entry.name}/`);
    if (files.size > MAX_FILES) {
      throw new StartupError(
        `${path} holds more than ${MAX_FILES} files: wanted a model's folder.`,
      );
    }
  }
}
