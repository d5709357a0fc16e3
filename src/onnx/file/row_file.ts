/**
 * Rows of a constant, read one at a time from the file that it lies in: a step takes a few of a table of hundreds of MiB.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { ModelFiles } from "./external_data.ts";
import type { StoredTensor } from "./stored_tensor.ts";

/** Rows of f32. */
export class RowFile implements Disposable {
  readonly #file: Deno.FsFile;
  readonly #name: string;
  readonly #offset: number;

  private constructor(file: Deno.FsFile, { name, offset }: { name: string; offset: number }) {
    this.#file = file;
    this.#name = name;
    this.#offset = offset;
  }

  /** Whether the rows of a constant can be read so. */
  static canRead({ dtype, data }: StoredTensor): boolean {
    return dtype === "float32" && data.kind === "file";
  }

  /** @throws {StartupError} when there is no such file. */
  static async open({ data }: StoredTensor, files: ModelFiles): Promise<RowFile> {
    if (data.kind !== "file" || files.pathOf === undefined) {
      throw new StartupError("A table whose rows are read from a file is not in one.");
    }
    const path = await files.pathOf(data.file);
    return new RowFile(await Deno.open(path), { name: path, offset: data.offset });
  }

  /**
   * Fills `into` with elements from number `first` on.
   *
   * @throws {Error} when the file has become shorter.
   */
  read(first: number, into: Float32Array<ArrayBuffer>): void {
    this.#file.seekSync(this.#offset + first * 4, Deno.SeekMode.Start);
    const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    for (let done = 0; done < bytes.length;) {
      const count = this.#file.readSync(bytes.subarray(done));
      if (count === null) {
        throw new Error(
          `${this.#name} has become shorter while it is served: restore the file and start again.`,
        );
      }
      done += count;
    }
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}
