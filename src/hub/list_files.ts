/**
 * Lists what a model's folder holds.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../base/errors.ts";

/** Names of files that a model is read from. */
export const READ_FILE = /\.(json|onnx|jinja|txt|ya?ml|bin|npy|model)$|[._]data(_\d+)?$/;

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

/** Levels of subfolders: `onnxruntime/cpu_and_mobile/cpu-int4/model.onnx` is the deepest known. */
const MAX_DEPTH = 4;
/** A folder of more is no model's. */
const MAX_FILES = 20_000;

/**
 * The files in a folder and a few levels below it, by their paths, without those in folders whose names begin with a
 * dot.
 *
 * @throws {StartupError} when it cannot be read, or holds something that is no file in the place of one.
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

async function addFiles(files: Set<string>, path: string, below: string): Promise<void> {
  const depth = below.split("/").length - 1;
  for await (const entry of Deno.readDir(join(path, below))) {
    const inner = join(path, below, entry.name);
    // Caches link to files, and users link to folders.
    const isFolder = entry.isDirectory ||
      (entry.isSymlink && (await Deno.stat(inner).catch(() => undefined))?.isDirectory === true);
    const isHidden = entry.name.startsWith(".");
    if (!isFolder) files.add(below + requireRegular(entry, inner).name);
    else if (depth < MAX_DEPTH && !isHidden) await addFiles(files, path, `${below}${entry.name}/`);
    if (files.size > MAX_FILES) {
      throw new StartupError(
        `${path} holds more than ${MAX_FILES} files: wanted a model's folder.`,
      );
    }
  }
}
