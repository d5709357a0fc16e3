/**
 * When the worker of a session is replaced: after a loss, until it is lost too often, and when the model's files changed.
 *
 * @module
 */
import { join } from "node:path";
import { listModelFiles, READ_FILE } from "../../hub/list_files.ts";

const WINDOW_MS = 5 * 60_000;
const MAX_LOSSES_IN_WINDOW = 5;
const FIRST_WAIT_MS = 500;

/**
 * Remembers when workers were lost. The first loss is answered at once, each further one within five minutes
 * after twice the wait of the one before, and the sixth not at all: the fault will not go away by itself.
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

// Notices that files of the model that is served were changed. Weights are mapped from disk: who
// writes into such a file changes the model under its requests, and who cuts one short ends the
// process with a bus error.

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
