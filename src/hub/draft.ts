/**
 * A file that is being downloaded.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { beginDigest, type Digester } from "./digest.ts";
import type { HubFile } from "./repository.ts";

const READ_BYTES = 1 << 20;

/** The partial file, with its digest so far. */
export class Draft implements Disposable {
  /** Bytes written so far. */
  bytes = 0;
  readonly #path: string;
  readonly #target: HubFile;
  readonly #file: Deno.FsFile;
  #digester: Digester;
  #isClosed = false;

  private constructor(path: string, target: HubFile, file: Deno.FsFile) {
    this.#path = path;
    this.#target = target;
    this.#file = file;
    this.#digester = beginDigest(target.digest.kind, target.bytes);
  }

  /** Opens the file at `path`, and continues after what an earlier process wrote. */
  static async open(path: string, target: HubFile): Promise<Draft> {
    const file = await Deno.open(path, { create: true, read: true, write: true });
    const draft = new Draft(path, target, file);
    await draft.#readAgain();
    return draft;
  }

  /** @throws {StartupError} when it cannot be written. */
  async append(piece: Uint8Array): Promise<void> {
    this.#digester.update(piece);
    for (let rest = piece; rest.length > 0;) {
      const count = await this.#file.write(rest).catch((cause) => {
        throw new StartupError(`${this.#path} cannot be written: ${cause.message}.`, { cause });
      });
      rest = rest.subarray(count);
    }
    this.bytes += piece.length;
  }

  /** Whether size and checksum are those of the hub. May be called once. */
  isRight(): boolean {
    const { bytes, digest } = this.#target;
    return this.bytes === bytes && this.#digester.hex() === digest.hex;
  }

  /** Starts again from the beginning. */
  async clear(): Promise<void> {
    await this.#file.truncate(0);
    await this.#file.seek(0, Deno.SeekMode.Start);
    this.bytes = 0;
    this.#digester = beginDigest(this.#target.digest.kind, this.#target.bytes);
  }

  /** Renames it to `path`, after its bytes are synced to the disk. */
  async moveTo(path: string): Promise<void> {
    await this.#file.sync();
    this.#close();
    await Deno.rename(this.#path, path);
  }

  [Symbol.dispose](): void {
    this.#close();
  }

  #close(): void {
    if (!this.#isClosed) this.#file.close();
    this.#isClosed = true;
  }

  /** Hashes what an earlier process wrote. */
  async #readAgain(): Promise<void> {
    if ((await this.#file.stat()).size > this.#target.bytes) return await this.clear();
    const buffer = new Uint8Array(READ_BYTES);
    for (let count; (count = await this.#file.read(buffer)) !== null;) {
      this.#digester.update(buffer.subarray(0, count));
      this.bytes += count;
    }
  }
}
