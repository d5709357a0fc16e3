/**
 * The files of a model, read range by range: the graph itself and the external data beside it.
 *
 * @module
 */
import { StartupError } from "../errors.ts";
import type { StoredTensor } from "./stored_tensor.ts";

/** Where a graph and its external data are read from; files are named as the graph names them. */
export interface ModelFiles {
  /** Bytes of a file. @throws {StartupError} when it cannot be read. */
  size(file: string): Promise<number>;
  /** Fills `into` from `offset` on. @throws {StartupError} when the file is shorter or cannot be read. */
  read(file: string, offset: number, into: Uint8Array): Promise<void>;
  /** Where a file really lies, links followed; absent where there are no files to be mapped. */
  pathOf?(file: string): Promise<string>;
}

/** The files of one folder, opened when first read. */
export class FolderFiles implements ModelFiles, AsyncDisposable {
  /** Where they are. */
  readonly folder: string;
  readonly #open = new Map<string, Promise<Deno.FsFile>>();
  /** Seek and read belong together: reads take turns. */
  #turn: Promise<unknown> = Promise.resolve();

  /** @param folder the folder of the graph. */
  constructor(folder: string) {
    this.folder = folder;
  }

  /** A path outside the folder is refused: a model must not be able to name any file of the machine. */
  #path(file: string): string {
    const parts = file.split(/[\\/]/);
    if (file === "" || /^[\\/]|^[a-zA-Z]:/.test(file) || parts.includes("..")) {
      throw new StartupError(
        `The graph names the external data file "${file}", which is not inside the model's folder.`,
      );
    }
    return `${this.folder}/${parts.join("/")}`;
  }

  #file(file: string): Promise<Deno.FsFile> {
    let opened = this.#open.get(file);
    if (opened === undefined) {
      const path = this.#path(file);
      opened = Deno.open(path).catch((cause) => {
        throw new StartupError(`Cannot read ${path}, which the model needs: ${cause.message}`, {
          cause,
        });
      });
      this.#open.set(file, opened);
    }
    return opened;
  }

  async size(file: string): Promise<number> {
    return (await (await this.#file(file)).stat()).size;
  }

  async pathOf(file: string): Promise<string> {
    await this.#file(file);
    return await Deno.realPath(this.#path(file));
  }

  read(file: string, offset: number, into: Uint8Array): Promise<void> {
    const done = this.#turn.then(() => this.#readNow(file, offset, into));
    this.#turn = done.catch(() => {});
    return done;
  }

  async #readNow(file: string, offset: number, into: Uint8Array): Promise<void> {
    const handle = await this.#file(file);
    await handle.seek(offset, Deno.SeekMode.Start);
    for (let done = 0; done < into.length;) {
      const count = await handle.read(into.subarray(done));
      if (count === null) {
        throw new StartupError(
          `${this.#path(file)} ends at byte ${offset + done}, but the graph wants ` +
            `${into.length} bytes from ${offset} on; the download may be incomplete.`,
        );
      }
      done += count;
    }
  }

  /** Closes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const opened of this.#open.values()) {
      // What could not be opened needs no closing.
      await opened.then((file) => file.close(), () => {});
    }
    this.#open.clear();
  }
}

/** Bytes that a stored tensor takes. */
export function storedBytes({ data }: StoredTensor): number {
  return data.kind === "memory" ? data.bytes.length : data.length;
}

/** Copies a stored tensor to `into`, which is exactly as long as {@linkcode storedBytes} says. */
export async function readStored(
  tensor: StoredTensor,
  files: ModelFiles,
  into: Uint8Array,
): Promise<void> {
  const { data } = tensor;
  if (data.kind === "memory") into.set(data.bytes);
  else if (data.kind === "file") await files.read(data.file, data.offset, into);
  else {
    const sources: Uint8Array[] = [];
    for (const source of data.sources) sources.push(await bytesOfStored(source, files));
    data.compute(sources, into);
  }
}

/** The bytes of a stored tensor; those in memory are not copied. */
export async function bytesOfStored(tensor: StoredTensor, files: ModelFiles): Promise<Uint8Array> {
  if (tensor.data.kind === "memory") return tensor.data.bytes;
  const bytes = new Uint8Array(tensor.data.length);
  await readStored(tensor, files, bytes);
  return bytes;
}
