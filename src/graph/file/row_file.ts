/**
 * Rows of a constant, read one at a time from the file that it lies in: a step takes a few of a table of hundreds of MiB.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { ModelFiles } from "./external_data.ts";
import type { StoredTensor } from "./stored_tensor.ts";

/** Rows of f32. */
export class RowFile implements Disposable {
  readonly #file: Deno.FsFile;
  readonly #path: string;
  readonly #offset: number;
  /** The row that was read last. */
  readonly #row: Float32Array<ArrayBuffer>;

  private constructor(
    file: Deno.FsFile,
    { path, offset, width }: { path: string; offset: number; width: number },
  ) {
    this.#file = file;
    this.#path = path;
    this.#offset = offset;
    this.#row = new Float32Array(width);
  }

  /** Whether the rows of a constant can be read so. */
  static canRead({ dtype, data }: StoredTensor): boolean {
    return dtype === "float32" && data.kind === "file";
  }

  /** @throws {StartupError} when there is no such file. */
  static async open({ data, shape }: StoredTensor, files: ModelFiles): Promise<RowFile> {
    if (data.kind !== "file" || files.resolvePath === undefined) {
      throw new StartupError("A table whose rows are read from a file is not in one.");
    }
    const path = await files.resolvePath(data.file);
    const file = await Deno.open(path);
    return new RowFile(file, { path, offset: data.offset, width: shape.at(-1)! });
  }

  /**
   * A row by its number.
   *
   * @returns f32 `[width]`, good until the next row is read.
   * @throws {Error} when the file has become shorter.
   */
  read(row: number): Float32Array {
    const bytes = new Uint8Array(this.#row.buffer);
    this.#file.seekSync(this.#offset + row * bytes.length, Deno.SeekMode.Start);
    for (let done = 0; done < bytes.length;) {
      const count = this.#file.readSync(bytes.subarray(done));
      if (count === null) {
        throw new Error(
          `${this.#path} has become shorter while it is served: restore the file and start again.`,
        );
      }
      done += count;
    }
    return this.#row;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}
