/**
 * Decides when a session's worker is replaced, and notices changes to the model's files.
 *
 * @module
 */
import { join } from "node:path";
import { listModelFiles, READ_FILE } from "../../hub/list_files.ts";

const WINDOW_MS = 5 * 60_000;
const MAX_LOSSES_IN_WINDOW = 5;
const FIRST_WAIT_MS = 500;

/**
 * Decides how long to wait after a loss. The first loss is followed by a restart at once; each further one within five
 * minutes, by a wait twice as long as the last. The sixth loss is final, as the fault will not go away by itself.
 */
export class RestartPolicy {
  readonly #lossesMs: number[] = [];

  /**
   * Records a loss at `nowMs`.
   *
   * @returns milliseconds to wait before the next worker is started, or `undefined` to give up.
   *
   * @example
   * ```ts
   * import { RestartPolicy } from "./restart_policy.ts";
   * const policy = new RestartPolicy();
   * policy.recordLoss(0); // 0
   * policy.recordLoss(1_000); // 500
   * ```
   */
  recordLoss(nowMs: number): number | undefined {
    while (this.#lossesMs.length > 0 && nowMs - this.#lossesMs[0]! >= WINDOW_MS) {
      this.#lossesMs.shift();
    }
    const earlier = this.#lossesMs.length;
    this.#lossesMs.push(nowMs);
    if (earlier >= MAX_LOSSES_IN_WINDOW) return undefined;
    return earlier === 0 ? 0 : FIRST_WAIT_MS * 2 ** (earlier - 1);
  }
}

/** The state of a file when it was marked. */
interface Mark {
  readonly bytes: number;
  readonly writtenMs: number;
}

/**
 * Notices changes to the files of the model that is served, by their sizes and modification times. Weights are mapped
 * from disk: writing into such a file changes the model under its running requests, and truncating one ends the process
 * with a bus error.
 */
export class ModelMarks {
  readonly #marks: ReadonlyMap<string, Mark>;

  private constructor(marks: ReadonlyMap<string, Mark>) {
    this.#marks = marks;
  }

  /** Marks the model files in these folders. A folder that cannot be read has no marks. */
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
   * Returns the path of a file whose size or time has changed. Deleted files do not count, because they are still
   * mapped.
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
