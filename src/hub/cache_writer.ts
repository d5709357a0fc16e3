/**
 * Writes the Hugging Face cache: files that are being downloaded, their locks, the links from snapshots to blobs,
 * references, and markers for files that a revision does not have.
 *
 * @module
 */
import { isSystemError, StartupError } from "../base/errors.ts";
import type { HubFile, Repository } from "./repository.ts";
import { dirname, join, relative } from "node:path";
import { sleep } from "../base/timing.ts";
import { createHash, type Hash } from "node:crypto";
import { getRepositoryFolder, type HubSettings } from "./cache.ts";

const READ_BYTES = 1 << 20;

/** A file that is being downloaded, with its digest so far. */
export class Draft implements Disposable {
  /** Bytes written so far. */
  bytes = 0;
  readonly #path: string;
  readonly #target: HubFile;
  readonly #file: Deno.FsFile;
  #hash: Hash;
  #isClosed = false;

  private constructor(path: string, target: HubFile, file: Deno.FsFile) {
    this.#path = path;
    this.#target = target;
    this.#file = file;
    this.#hash = beginDigest(target);
  }

  /** Opens the file at `path`, which an earlier process may have begun, in order to continue it. */
  static async open(path: string, target: HubFile): Promise<Draft> {
    const file = await Deno.open(path, { create: true, read: true, write: true });
    const draft = new Draft(path, target, file);
    await draft.#readAgain();
    return draft;
  }

  /** Appends bytes. @throws {StartupError} when the file cannot be written. */
  async append(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    for (let rest = chunk; rest.length > 0;) {
      const count = await this.#file.write(rest).catch((cause) => {
        throw new StartupError(`${this.#path} cannot be written: ${cause.message}.`, { cause });
      });
      rest = rest.subarray(count);
    }
    this.bytes += chunk.length;
  }

  /** Whether the size and the digest match the hub's. May be called once for each attempt. */
  isRight(): boolean {
    const { bytes, digest } = this.#target;
    return this.bytes === bytes && this.#hash.digest("hex") === digest.hex;
  }

  /** Starts again from the beginning. */
  async clear(): Promise<void> {
    await this.#file.truncate(0);
    await this.#file.seek(0, Deno.SeekMode.Start);
    this.bytes = 0;
    this.#hash = beginDigest(this.#target);
  }

  /** Syncs the file to the disk, then renames it to `path`. */
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

  /** Hashes the bytes that an earlier process wrote. */
  async #readAgain(): Promise<void> {
    if ((await this.#file.stat()).size > this.#target.bytes) return await this.clear();
    const buffer = new Uint8Array(READ_BYTES);
    for (let count; (count = await this.#file.read(buffer)) !== null;) {
      this.#hash.update(buffer.subarray(0, count));
      this.bytes += count;
    }
  }
}

/** Starts the digest of a file. */
function beginDigest({ digest: { kind }, bytes }: HubFile): Hash {
  const hash = createHash(kind === "sha256" ? "sha256" : "sha1");
  return kind === "git" ? hash.update(`blob ${bytes}\0`) : hash;
}

/** Time between two attempts to take a lock. */
const ASK_AGAIN_MS = 200;

/**
 * A lock between processes, held until it is disposed. Only the holder of a blob's lock writes the blob.
 *
 * The lock uses the same files and system call (`flock`) as Python's huggingface_hub. The system releases the lock of a
 * process that dies. The file is not deleted, because deleting it while others wait would create a second lock.
 */
export class FileLock implements Disposable {
  readonly #file: Deno.FsFile;

  private constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /**
   * Waits for the lock of the file at `path`, which is created if missing.
   *
   * @param onWait called once if another process holds the lock.
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

/** Thrown when the cache cannot be written. */
export class CacheWriteError extends StartupError {}

/** Runs a function that writes to the cache. @throws {CacheWriteError} when the operating system refuses it. */
export async function writeCache<T>(
  { cacheFolder }: HubSettings,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new CacheWriteError(
      `The cache folder ${cacheFolder} cannot be written: ${error.message}. Choose another folder ` +
        "with HF_HOME or HF_HUB_CACHE.",
      { cause: error },
    );
  }
}

/** The folder of a revision's files. */
export function getSnapshotFolder(
  { cacheFolder }: HubSettings,
  { id, commit }: Repository,
): string {
  return join(getRepositoryFolder(cacheFolder, id), "snapshots", commit);
}

/**
 * Makes a blob visible as a file of a revision: by a symbolic link, or else a hard link, because on Windows only some
 * users may create symbolic links. If both are refused, or links are turned off, the blob is copied.
 */
export async function linkInSnapshot(
  settings: HubSettings,
  { blob, file }: { readonly blob: string; readonly file: string },
): Promise<void> {
  if (await isSameSize(file, blob)) return;
  await Deno.mkdir(dirname(file), { recursive: true });
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    const target = relative(dirname(file), blob);
    const isLinked = settings.usesLinks &&
      (await succeeds(Deno.symlink(target, draft, { type: "file" })) ||
        await succeeds(Deno.link(blob, draft)));
    if (!isLinked) await Deno.copyFile(blob, draft);
    await Deno.rename(draft, file);
  } catch (error) {
    await Deno.remove(draft).catch(() => {});
    throw error;
  }
}

function succeeds(work: Promise<void>): Promise<boolean> {
  return work.then(() => true, () => false);
}

async function isSameSize(a: string, b: string): Promise<boolean> {
  const [first, second] = await Promise.all(
    [a, b].map((path) => Deno.stat(path).catch(() => undefined)),
  );
  return first !== undefined && first.size === second?.size;
}

/** Records the commit of a branch or tag. A revision that is itself a commit needs no record. */
export async function writeReference(
  { cacheFolder }: HubSettings,
  { id, commit }: Repository,
): Promise<void> {
  if (id.revision === commit) return;
  const path = join(getRepositoryFolder(cacheFolder, id), "refs", id.revision);
  // A cache that already has everything may be read-only.
  if (await Deno.readTextFile(path).catch(() => "") === commit) return;
  await Deno.mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${crypto.randomUUID()}`;
  await Deno.writeTextFile(draft, commit);
  await Deno.rename(draft, path);
}

/** Records, as huggingface_hub does, that a revision has no file of this name. */
export async function noteAbsent(
  { cacheFolder }: HubSettings,
  { id, commit }: Repository,
  path: string,
): Promise<void> {
  const note = join(getRepositoryFolder(cacheFolder, id), ".no_exist", commit, path);
  if (await Deno.stat(note).then(() => true, () => false)) return;
  await Deno.mkdir(dirname(note), { recursive: true });
  await Deno.writeTextFile(note, "");
}
