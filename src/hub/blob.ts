/**
 * Downloads one file into the cache. The file is written to a draft, which is renamed once its size and checksum are
 * right, so that incomplete files are never visible. If a process dies, the next one resumes its draft.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { StartupError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { askHub, cleanText, HubError, Retries, type RetryOptions } from "./hub_request.ts";
import { getLockFolder, getRepositoryFolder, type HubSettings, showHubId } from "./cache.ts";
import { Draft, FileLock } from "./cache_writer.ts";
import type { HubFile, Repository } from "./repository.ts";

const HTTP_PARTIAL_CONTENT = 206;
const HTTP_RANGE_NOT_SATISFIABLE = 416;

/** The file to download, and options for downloading it. */
export interface BlobOptions extends RetryOptions {
  readonly settings: HubSettings;
  readonly repository: Repository;
  readonly file: HubFile;
  /** Called with the number of bytes so far. The number falls when a wrong file is discarded. */
  readonly onBytes: (bytes: number) => void;
}

/** Gets the path of a file's blob, whether the blob exists or not. */
export function getBlobPath(
  { cacheFolder }: HubSettings,
  { id }: Repository,
  { digest }: HubFile,
): string {
  return join(getRepositoryFolder(cacheFolder, id), "blobs", digest.hex);
}

/** Bytes of a file that are already in the cache, complete or not. */
export async function countCachedBytes(options: Omit<BlobOptions, "onBytes">): Promise<number> {
  const { settings, repository, file } = options;
  const path = getBlobPath(settings, repository, file);
  if (await readSize(path) === file.bytes) return file.bytes;
  const bytes = await readSize(getDraftPath(path)) ?? 0;
  return bytes <= file.bytes ? bytes : 0;
}

/**
 * Downloads a file unless the cache has it. Only one process at a time downloads a file; the others wait for it.
 *
 * @returns the path of the blob.
 * @throws {StartupError} with what to do, when the hub refuses, the connection keeps failing, or the checksum differs
 * from the hub's.
 */
export async function downloadBlob(options: BlobOptions): Promise<string> {
  const { settings, repository, file, signal, onBytes } = options;
  const path = getBlobPath(settings, repository, file);
  if (await readSize(path) !== file.bytes) {
    await Deno.mkdir(dirname(path), { recursive: true });
    using _lock = await FileLock.take(getLockPath(settings, repository, file), {
      signal,
      onWait: () => log.info("another process downloads this file: waiting", { file: file.path }),
    });
    // The previous holder of the lock may have downloaded the file.
    if (await readSize(path) !== file.bytes) {
      using draft = await Draft.open(getDraftPath(path), file);
      await fill(draft, options);
      await draft.moveTo(path);
    }
  }
  onBytes(file.bytes);
  return path;
}

function getDraftPath(blob: string): string {
  return `${blob}.incomplete`;
}

function getLockPath(
  { cacheFolder }: HubSettings,
  { id }: Repository,
  { digest }: HubFile,
): string {
  return join(getLockFolder(cacheFolder, id), `${digest.hex}.lock`);
}

async function readSize(path: string): Promise<number | undefined> {
  return (await Deno.stat(path).catch(() => undefined))?.size;
}

async function fill(draft: Draft, options: BlobOptions): Promise<void> {
  const { file, repository, onBytes } = options;
  const retries = new Retries(options);
  let hasBeenWrong = false;
  while (true) {
    onBytes(draft.bytes);
    const before = draft.bytes;
    try {
      if (draft.bytes < file.bytes) await receive(draft, options);
      if (draft.isRight()) return;
    } catch (error) {
      if (draft.bytes > before) retries.reset();
      await retries.waitAfter(error);
      continue;
    }
    await draft.clear();
    if (hasBeenWrong) {
      const { kind, hex } = file.digest;
      throw new StartupError(
        `${file.path} of ${
          showHubId(repository.id)
        } was downloaded twice, both times with a wrong ` +
          `checksum: wanted ${kind} ${hex}. Try again later, or on another network.`,
      );
    }
    hasBeenWrong = true;
    log.warn("a file has a wrong checksum: downloading it again", { file: file.path });
  }
}

/** Appends the missing bytes to the draft. @throws {HubError} when the hub refuses, or the connection breaks. */
async function receive(draft: Draft, options: BlobOptions): Promise<void> {
  const { settings, repository, file, signal, onBytes } = options;
  const { id, commit } = repository;
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  using stall = new StallWatch(settings.stallMs, signal);
  try {
    const response = await askHub(settings, {
      url: `${settings.endpoint}/${id.owner}/${id.name}/resolve/${commit}/${path}`,
      subject: `${file.path} of ${showHubId(id)}`,
      // Compressed responses cannot be resumed.
      headers: { "accept-encoding": "identity", range: `bytes=${draft.bytes}-` },
      signal: stall.signal,
    });
    await matchStart(draft, response);
    for await (const chunk of response.body ?? []) {
      stall.reset();
      // More bytes than expected are an error: an endless response must not fill the disk.
      if (draft.bytes + chunk.length > file.bytes) return await draft.clear();
      await draft.append(chunk);
      onBytes(draft.bytes);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof HubError && error.status === HTTP_RANGE_NOT_SATISFIABLE) {
      await draft.clear();
      throw new HubError(error.message);
    }
    if (error instanceof StartupError) throw error;
    throw explainBreak(options, { at: draft.bytes, error, hasStalled: stall.signal.aborted });
  }
  if (draft.bytes < file.bytes) throw explainBreak(options, { at: draft.bytes });
}

/**
 * Clears the draft if the response is the whole file, because servers may ignore the requested range.
 *
 * @throws {HubError} when the response is a range that does not begin at the end of the draft.
 */
async function matchStart(draft: Draft, { status, headers }: Response): Promise<void> {
  if (status !== HTTP_PARTIAL_CONTENT) return await draft.clear();
  const range = headers.get("content-range") ?? "";
  if (Number(/^bytes (\d+)-/.exec(range)?.[1]) === draft.bytes) return;
  await draft.clear();
  throw new HubError(
    `The hub sent the wrong range of the file: wanted bytes from ${draft.bytes}, saw ${
      cleanText(range)
    }.`,
  );
}

function explainBreak(
  { file, repository, settings }: BlobOptions,
  { at, error, hasStalled = false }: { at: number; error?: unknown; hasStalled?: boolean },
): HubError {
  const reason = hasStalled
    ? `no data arrived for ${settings.stallMs / 1000} s`
    : error instanceof Error
    ? error.message
    : "the connection ended";
  return new HubError(
    `The download of ${file.path} of ${showHubId(repository.id)} broke off at byte ${at} of ` +
      `${file.bytes}: ${reason}. Run the command again to resume it.`,
    { cause: error },
  );
}

/** A signal that aborts when no data has arrived for some time, or when the given signal aborts. */
class StallWatch implements Disposable {
  readonly #controller = new AbortController();
  readonly #stallMs: number;
  readonly signal: AbortSignal;
  #timer: ReturnType<typeof setTimeout>;

  constructor(stallMs: number, signal: AbortSignal | undefined) {
    this.#stallMs = stallMs;
    const own = this.#controller.signal;
    this.signal = signal === undefined ? own : AbortSignal.any([own, signal]);
    this.#timer = this.#start();
  }

  /** Called when data has arrived. */
  reset(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #start(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.#controller.abort(), this.#stallMs);
  }
}
