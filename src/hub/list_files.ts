/**
 * Lists the files in a model's folder, and notices changes to them.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { StartupError } from "../base/errors.ts";
import { requireOwnFile } from "../graph/file/external_data.ts";

/** Matches the names of files that a model may be read from. */
const READ_FILE = /\.(json|onnx|jinja|txt|ya?ml|bin|npy|model|wav)$|[._]data(_\d+)?$/;

/** Checks that a file can be read to its end. @throws {StartupError} when it is a FIFO, a socket or a device. */
function requireRegular(entry: Deno.DirEntry, path: string): void {
  if (entry.isFile || entry.isDirectory || !READ_FILE.test(entry.name)) return;
  const target = entry.isSymlink ? stat(path) : undefined;
  // A dangling link is reported when the file is read.
  if (entry.isSymlink && (target === undefined || target.isFile || target.isDirectory)) return;
  throw new StartupError(`${path} is a FIFO, a socket or a device: want a regular file.`);
}

function stat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}

/** Maximum number of levels of subfolders: `onnxruntime/cpu_and_mobile/cpu-int4/model.onnx` is the deepest known. */
const MAX_DEPTH = 4;
/** A folder with more files than this is not a model's. */
const MAX_FILES = 20_000;

/**
 * Lists the paths of the files in a folder and in its subfolders, a few levels deep. Leaves out subfolders whose names
 * begin with a dot.
 *
 * @throws {StartupError} when the folder cannot be read or holds too many files, when a model file in it is a FIFO, a
 * socket or a device, or when a link leads out of the folder.
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
 * Lists a model's files. If the path leads to a graph (`models/u2net.onnx`), the files are the graph and the external
 * data next to it. Other graphs in the folder are other models.
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
    if (target !== undefined && (isFolder || READ_FILE.test(entry.name))) {
      await requireOwnFile(inner, path);
    }
    if (!isFolder) files.add(below + entry.name);
    else if (depth < MAX_DEPTH && !isHidden) await addFiles(files, path, `${below}${entry.name}/`);
    if (files.size > MAX_FILES) {
      throw new StartupError(
        `${path} holds more than ${MAX_FILES} files, so it is not a model's folder: name the model's own folder.`,
      );
    }
  }
}

/** The size and modification time of a file. */
interface Mark {
  readonly bytes: number;
  readonly writtenMs: number;
}

/**
 * Notices changes to the files of a served model, by their sizes and modification times. Weights are mapped from disk:
 * writing to such a file changes the model under its running requests, and truncating it ends the process with a bus
 * error.
 */
export class ModelMarks {
  readonly #marks: ReadonlyMap<string, Mark>;

  private constructor(marks: ReadonlyMap<string, Mark>) {
    this.#marks = marks;
  }

  /** Records the model files in these folders. Folders that cannot be read are skipped. */
  static async take(folders: readonly string[]): Promise<ModelMarks> {
    const marks = new Map<string, Mark>();
    for (const path of folders) {
      const { folder, files } = await listModelFiles(path)
        .catch(() => ({ folder: path, files: new Set<string>() }));
      for (const file of [...files].filter((name) => READ_FILE.test(name))) {
        const mark = await readMark(join(folder, file));
        if (mark !== undefined) marks.set(join(folder, file), mark);
      }
    }
    return new ModelMarks(marks);
  }

  /**
   * Returns the path of a file whose size or time has changed, if there is one. Deleted files do not count, because
   * they are still mapped.
   */
  async findChanged(): Promise<string | undefined> {
    for (const [path, { bytes, writtenMs }] of this.#marks) {
      const now = await readMark(path);
      if (now !== undefined && (now.bytes !== bytes || now.writtenMs !== writtenMs)) return path;
    }
    return undefined;
  }
}

async function readMark(path: string): Promise<Mark | undefined> {
  try {
    const { size, mtime } = await Deno.stat(path);
    return { bytes: size, writtenMs: mtime?.getTime() ?? 0 };
  } catch {
    return undefined;
  }
}
