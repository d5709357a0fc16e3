/**
 * Locks between processes, by the same files and the same system call as Python's huggingface_hub (`flock`): only the
 * holder of a blob's lock writes it. The system releases the lock of a process that dies.
 *
 * @module
 */
import { dirname } from "node:path";
import { sleep } from "./retry.ts";

const ASK_AGAIN_MS = 200;

/** A lock held until it is disposed. Its file stays: deleting it while others wait would create a second lock. */
export class FileLock implements Disposable {
  readonly #file: Deno.FsFile;

  private constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /**
   * Waits for the lock of the file at `path`, which is created if missing.
   *
   * @param onWait called once when another process has it.
   */
  static async take(
    path: string,
    { signal, onWait }: { signal?: AbortSignal | undefined; onWait?: () => void } = {},
  ): Promise<FileLock> {
    await Deno.mkdir(dirname(path), { recursive: true });
    const file = await Deno.open(path, { create: true, write: true });
    try {
      for (let isFirst = true; !await file.tryLock(true); isFirst = false) {
        if (isFirst) onWait?.();
        await sleep(ASK_AGAIN_MS, signal);
      }
    } catch (error) {
      file.close();
      throw error;
    }
    return new FileLock(file);
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}
