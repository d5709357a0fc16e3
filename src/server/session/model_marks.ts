/**
 * Notices that files of the model that is served were changed. Weights are mapped from disk: who writes into such a file
 * changes the model under its requests, and who cuts one short ends the process with a bus error.
 *
 * @module
 */
import { join } from "node:path";
import { listModelFiles, READ_FILE } from "../../hub/list_files.ts";

/** A file as it was when it was marked. */
interface Mark {
  readonly bytes: number;
  readonly writtenMs: number;
}

/** Sizes and times of files, by path. */
export class ModelMarks {
  readonly #marks: ReadonlyMap<string, Mark>;

  private constructor(marks: ReadonlyMap<string, Mark>) {
    this.#marks = marks;
  }

  /** Marks what a model is read from in these folders; a folder that cannot be read has no marks. */
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

  /** The path of a file whose size or time is another one now. Those that are gone are still mapped: they do not count. */
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
