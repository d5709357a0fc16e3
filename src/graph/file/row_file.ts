/**
 * Rows of a constant, read one at a time from the file that it lies in: a step takes a few of a table of hundreds of MiB.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { ModelFiles } from "./external_data.ts";
import type { StoredTensor, TensorBytes } from "./stored_tensor.ts";

/** The file of a matrix of f32, or of f16 that is widened, read row by row. */
export class RowFile implements Disposable {
  readonly #file: Deno.FsFile;
  readonly #path: string;
  readonly #offset: number;
  /** The row that was read last. */
  readonly #row: Float32Array<ArrayBuffer>;
  /** The same as the file has it. */
  readonly #stored: Float32Array<ArrayBuffer> | Float16Array<ArrayBuffer>;

  private constructor(
    file: Deno.FsFile,
    { path, offset, width, isHalf }: {
      readonly path: string;
      readonly offset: number;
      readonly width: number;
      readonly isHalf: boolean;
    },
  ) {
    this.#file = file;
    this.#path = path;
    this.#offset = offset;
    this.#row = new Float32Array(width);
    this.#stored = isHalf ? new Float16Array(width) : this.#row;
  }

  /** Whether a constant can be read this way. */
  static canRead({ dtype, data }: StoredTensor): boolean {
    return dtype === "float32" && findSource(data).kind === "file";
  }

  /** @throws {StartupError} when there is no such file. */
  static async open({ data, shape }: StoredTensor, files: ModelFiles): Promise<RowFile> {
    const source = findSource(data);
    if (source.kind !== "file" || files.resolvePath === undefined) {
      throw new StartupError("A table whose rows are read from a file is not in one.");
    }
    const path = await files.resolvePath(source.file);
    const file = await Deno.open(path);
    const [{ offset }, width] = [source, shape.at(-1)!];
    return new RowFile(file, { path, offset, width, isHalf: data.kind === "widened" });
  }

  /**
   * A row by its number.
   *
   * @returns f32 `[width]`, good until the next row is read.
   * @throws {Error} when the file has become shorter.
   */
  read(row: number): Float32Array {
    const bytes = new Uint8Array(this.#stored.buffer);
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
    if (this.#stored !== this.#row) this.#row.set(this.#stored);
    return this.#row;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

/** The source of a constant that is widened. */
function findSource(data: TensorBytes): TensorBytes {
  return data.kind === "widened" ? data.source.data : data;
}
