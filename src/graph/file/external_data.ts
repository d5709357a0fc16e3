/**
 * Reads ranges of a model's files: the graph itself and the external data beside it.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { isAbsolute, join, relative, sep } from "node:path";

/** Reads a graph and its external data. Files have the names that the graph uses. */
export interface ModelFiles {
  /** The size of a file in bytes. @throws {StartupError} when it cannot be read. */
  size(file: string): Promise<number>;
  /**
   * Fills `into` with the bytes that begin at `offset`. @throws {StartupError} when the file is shorter or cannot be
   * read.
   */
  read(file: string, offset: number, into: Uint8Array): Promise<void>;
  /** The path of a file after following links; absent if files cannot be opened by path. */
  resolvePath?(file: string): Promise<string>;
  /** @throws {StartupError} when a file has changed since it was first read. */
  requireUnchanged?(): Promise<void>;
}

/**
 * Longest read that is done synchronously. A graph needs hundreds of short reads, and each asynchronous read waits for
 * another thread twice.
 */
const MAX_SYNC_BYTES = 64 * 1024;

/** An open file, with its size and modification time when it was opened. */
interface OpenFile {
  readonly handle: Deno.FsFile;
  readonly first: Deno.FileInfo;
}

/** The files of one folder, opened when first read. */
export class FolderFiles implements ModelFiles, AsyncDisposable {
  /** The folder of the graph. */
  readonly folder: string;
  /** The model's folder. Links that lead out of it are refused. */
  readonly root: string;
  readonly #open = new Map<string, Promise<OpenFile>>();
  /** The end of the last read. Each read waits for it, so that no other read comes between a seek and its read. */
  #lastRead: Promise<unknown> = Promise.resolve();

  /**
   * @param folder of the graph.
   * @param root the model's folder, if the graph is in a folder below it.
   */
  constructor(folder: string, root = folder) {
    this.folder = folder;
    this.root = root;
  }

  /** The path of a file. A path outside the folder is refused, so that a model cannot read any file of the machine. */
  #path(file: string): string {
    const parts = file.split(/[\\/]/);
    if (file === "" || /^[\\/]|^[a-zA-Z]:/.test(file) || parts.includes("..")) {
      throw new StartupError(
        `The graph names the external data file "${file}", which is not inside the model's folder.`,
      );
    }
    return `${this.folder}/${parts.join("/")}`;
  }

  #file(file: string): Promise<OpenFile> {
    let opened = this.#open.get(file);
    if (opened === undefined) {
      const path = this.#path(file);
      opened = openFile(path, this.root).catch((cause) => {
        if (cause instanceof StartupError) throw cause;
        throw new StartupError(`Cannot read ${path}, which the model needs: ${cause.message}`, {
          cause,
        });
      });
      this.#open.set(file, opened);
    }
    return opened;
  }

  async size(file: string): Promise<number> {
    return (await (await this.#file(file)).handle.stat()).size;
  }

  /** Identifies the contents that a file had when it was opened, by size and modification time. */
  async version(file: string): Promise<string> {
    return getVersion((await this.#file(file)).first);
  }

  async resolvePath(file: string): Promise<string> {
    await this.#file(file);
    return await Deno.realPath(this.#path(file));
  }

  async requireUnchanged(): Promise<void> {
    for (const [file, opened] of this.#open) {
      const now = await Deno.stat(this.#path(file));
      const { first } = await opened;
      if (getVersion(now) === getVersion(first)) continue;
      throw new StartupError(
        `${this.#path(file)} changed while it was loaded (${first.size} bytes, now ${now.size}): ` +
          "start again once nothing writes to it any more.",
      );
    }
  }

  read(file: string, offset: number, into: Uint8Array): Promise<void> {
    const done = this.#lastRead.then(() => this.#readNow(file, offset, into));
    this.#lastRead = done.catch(() => {});
    return done;
  }

  async #readNow(file: string, offset: number, into: Uint8Array): Promise<void> {
    const { handle } = await this.#file(file);
    handle.seekSync(offset, Deno.SeekMode.Start);
    const isShort = into.length <= MAX_SYNC_BYTES;
    for (let done = 0; done < into.length;) {
      const rest = into.subarray(done);
      const count = isShort ? handle.readSync(rest) : await handle.read(rest);
      if (count === null) {
        throw new StartupError(
          `${this.#path(file)} ends at byte ${await this.size(file)}, but the graph needs ` +
            `${into.length} bytes from ${offset} on; the download may be incomplete.`,
        );
      }
      done += count;
    }
  }

  /** Closes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const opened of this.#open.values()) {
      // A file that could not be opened needs no closing.
      await opened.then(({ handle }) => handle.close(), () => {});
    }
    this.#open.clear();
  }
}

function getVersion({ size, mtime }: Deno.FileInfo): string {
  return `${size} ${mtime?.getTime()}`;
}

async function openFile(path: string, root: string): Promise<OpenFile> {
  const handle = await Deno.open(await requireOwnFile(path, root));
  const first = await handle.stat();
  if (first.isFile && first.size <= MAX_POINTER_BYTES) {
    try {
      requireNoPointer(path, await Deno.readTextFile(path));
    } catch (error) {
      handle.close();
      throw error;
    }
  }
  return { handle, first };
}

/** Longest pointer of Git LFS, by its specification. */
const MAX_POINTER_BYTES = 1024;

/**
 * Checks that a text is not a pointer, which Git leaves in place of a large file if its extension LFS is missing.
 *
 * @throws {StartupError} naming the file, and the command that fetches it.
 */
export function requireNoPointer(path: string, text: string): void {
  if (!text.startsWith("version https://git-lfs.github.com/spec/")) return;
  throw new StartupError(
    `${path} is only a pointer of Git LFS to the file, which was not downloaded. ` +
      'Run "git lfs pull" in the model\'s folder.',
  );
}

/** A snapshot in a Hugging Face cache, or a folder within one. */
const SNAPSHOT = /^(.*[\\/]models--[^\\/]+)[\\/]snapshots[\\/][^\\/]+/;

/**
 * Resolves the path of a model's file. Links that lead out of the model's folder are refused, because a downloaded
 * folder could otherwise make Hearth read any file of this machine. Files in a hub cache are links to their
 * repository's blobs, which are allowed.
 *
 * @param path of the file or subfolder.
 * @param folder of the model.
 * @throws {StartupError} when the path leads out of the folder.
 * @throws {Deno.errors.NotFound} when it does not exist.
 */
export async function requireOwnFile(path: string, folder: string): Promise<string> {
  const [real, home] = [await Deno.realPath(path), await Deno.realPath(folder)];
  const [, repository] = SNAPSHOT.exec(home) ?? [];
  const isOwn = isWithin(real, home) ||
    (repository !== undefined && isWithin(real, join(repository, "blobs")));
  if (isOwn) return real;
  throw new StartupError(
    `${path} is a link that leads out of the model's folder, and such links are not followed. ` +
      "Replace it with the file itself or a hard link.",
  );
}

function isWithin(path: string, folder: string): boolean {
  const steps = relative(folder, path);
  return steps !== ".." && !steps.startsWith(`..${sep}`) && !isAbsolute(steps);
}

/**
 * Fills `into` from an open file. This is synchronous, because rows of tables are usually in the page cache, and
 * waiting for an I/O thread would take longer.
 *
 * @throws {Error} when the file has become shorter.
 */
export function readOpenFile(
  { file, path, offset }: {
    readonly file: Deno.FsFile;
    readonly path: string;
    readonly offset: number;
  },
  into: Uint8Array,
): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  for (let done = 0; done < into.length;) {
    const count = file.readSync(into.subarray(done));
    if (count === null) {
      throw new Error(
        `${path} has become shorter while it is served: restore the file and start again.`,
      );
    }
    done += count;
  }
}
