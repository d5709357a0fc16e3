/**
 * Downloads files of a model into the cache, several at a time.
 *
 * @module
 */
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes } from "../base/bytes.ts";
import { sleep } from "../base/timing.ts";
import { type BlobOptions, countCachedBytes, downloadBlob, getBlobPath } from "./blob.ts";
import { type HubSettings, showHubId } from "./cache.ts";
import { getSnapshotFolder, linkInSnapshot } from "./cache_writer.ts";
import type { HubFile, Repository } from "./repository.ts";
import type { RetryOptions } from "./hub_request.ts";
import { StartupError } from "../base/errors.ts";

const MAX_AT_ONCE = 4;
const REPORT_EVERY_MS = 100;
/** Disk space left free for other programs. */
const SPARE_BYTES = 64 * 2 ** 20;

export interface DownloadProgress extends TransferPace {
  /** The file in progress that has the most bytes left. */
  readonly file: string;
  /** Bytes of all files, including cached ones. */
  readonly receivedBytes: number;
  readonly totalBytes: number;
}

export interface DownloadOptions extends RetryOptions {
  readonly settings: HubSettings;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Free space on the disk of a folder; `undefined` if unknown. */
  readonly findFreeBytes?: (folder: string) => Promise<number | undefined>;
}

/**
 * Downloads files of a revision, and links them into the cache's snapshot once all are complete.
 *
 * @param paths files of the repository, with the graphs last: a snapshot with a graph counts as complete.
 * @returns the snapshot's folder.
 * @throws {StartupError} when the disk has too little space, the hub refuses, or the connection keeps failing.
 */
export async function downloadFiles(
  repository: Repository,
  paths: readonly string[],
  options: DownloadOptions,
): Promise<string> {
  const { settings } = options;
  const files = paths.map((path) => repository.files.get(path)!);
  await Deno.mkdir(settings.cacheFolder, { recursive: true });
  await requireSpace(repository, files, options);
  await downloadBlobs(repository, files, options);
  const folder = getSnapshotFolder(settings, repository);
  for (const file of files) {
    const blob = getBlobPath(settings, repository, file);
    await linkInSnapshot(settings, { blob, file: join(folder, ...file.path.split("/")) });
  }
  return folder;
}

async function requireSpace(
  repository: Repository,
  files: readonly HubFile[],
  { settings, findFreeBytes = readFreeBytes }: DownloadOptions,
): Promise<void> {
  const missing = await Promise.all(
    files.map(async (file) => file.bytes - await countCachedBytes({ settings, repository, file })),
  );
  const needed = missing.reduce((sum, bytes) => sum + bytes, 0);
  const free = needed === 0 ? undefined : await findFreeBytes(settings.cacheFolder);
  if (free === undefined || needed + SPARE_BYTES <= free) return;
  throw new NoSpaceError(
    `${showHubId(repository.id)} needs ${formatBytes(needed)} more on the disk of ` +
      `${settings.cacheFolder}, which has ${
        formatBytes(free)
      } free. Free some space (see \`list\` ` +
      "and `rm`), or keep models on another disk with HF_HOME.",
  );
}

/** Free bytes on the disk of a folder; `undefined` if unknown. */
export async function readFreeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

async function downloadBlobs(
  repository: Repository,
  files: readonly HubFile[],
  options: DownloadOptions,
): Promise<void> {
  const failure = new AbortController();
  const signal = options.signal === undefined
    ? failure.signal
    : AbortSignal.any([options.signal, failure.signal]);
  const report = new Report(files, options.onProgress);
  // The largest first, so that no large file is left to the end.
  const waiting = [...files].sort((a, b) => b.bytes - a.bytes);
  const work = async () => {
    for (let file; (file = waiting.shift()) !== undefined;) {
      const { path } = file;
      const onBytes: BlobOptions["onBytes"] = (bytes) => report.record(path, bytes);
      await downloadBlob({ ...options, signal, repository, file, onBytes });
    }
  };
  const workers = Array.from({ length: MAX_AT_ONCE }, async () => {
    try {
      await work();
    } catch (error) {
      // The first failure aborts the others with the same error.
      failure.abort(error);
      throw error;
    }
  });
  // When this returns, even after an error, no file is being written any more.
  await Promise.allSettled(workers);
  signal.throwIfAborted();
}

/** Adds up the progress of the files, and reports it. */
class Report {
  readonly #onProgress: DownloadOptions["onProgress"];
  readonly #files: ReadonlyMap<string, HubFile>;
  readonly #received = new Map<string, number>();
  readonly #totalBytes: number;
  readonly #meter: TransferMeter;
  #lastAtMs = -Infinity;

  constructor(files: readonly HubFile[], onProgress: DownloadOptions["onProgress"]) {
    this.#files = new Map(files.map((file) => [file.path, file]));
    this.#onProgress = onProgress;
    this.#totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#meter = new TransferMeter(this.#totalBytes);
  }

  record(path: string, bytes: number): void {
    this.#received.set(path, bytes);
    const nowMs = performance.now();
    if (nowMs - this.#lastAtMs < REPORT_EVERY_MS) return;
    this.#lastAtMs = nowMs;
    const receivedBytes = [...this.#received.values()].reduce((sum, each) => sum + each, 0);
    this.#onProgress?.({
      file: this.#findLargestRunning() ?? path,
      receivedBytes,
      totalBytes: this.#totalBytes,
      ...this.#meter.record(receivedBytes, nowMs),
    });
  }

  #findLargestRunning(): string | undefined {
    const left = (path: string) =>
      (this.#files.get(path)?.bytes ?? 0) - (this.#received.get(path) ?? 0);
    return [...this.#received.keys()].sort((a, b) => left(b) - left(a))[0];
  }
}

/** The rate is measured over the last seconds, so that it follows the network without jumping. */
const WINDOW_MS = 5_000;

/** The speed of a transfer. */
interface TransferPace {
  readonly bytesPerSecond: number;
  /** Absent while no data arrives. */
  readonly secondsLeft: number | undefined;
}

/** Measures the speed of one transfer. */
export class TransferMeter {
  readonly #totalBytes: number;
  #samples: { atMs: number; bytes: number }[] = [];

  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /**
   * Records how many bytes have arrived at a time. A number that falls, because a file was restarted, resets the
   * measurement.
   */
  record(bytes: number, atMs: number): TransferPace {
    if (bytes < (this.#samples.at(-1)?.bytes ?? 0)) this.#samples = [];
    this.#samples.push({ atMs, bytes });
    // Keeps one sample from before the window, so that the window is covered.
    while ((this.#samples[1]?.atMs ?? Infinity) <= atMs - WINDOW_MS) this.#samples.shift();
    const first = this.#samples[0]!;
    const seconds = (atMs - first.atMs) / 1000;
    const bytesPerSecond = seconds > 0 ? (bytes - first.bytes) / seconds : 0;
    const secondsLeft = bytesPerSecond > 0
      ? (this.#totalBytes - bytes) / bytesPerSecond
      : undefined;
    return { bytesPerSecond, secondsLeft };
  }
}

/** Thrown when the disk has too little space for a download. */
class NoSpaceError extends StartupError {}

/** Time between two attempts of a download for which the disk had no space. */
const ASK_AGAIN_MS = 30_000;

/** Whether an error or one of its causes says that the disk is full: ENOSPC, EDQUOT or ERROR_DISK_FULL. */
function isNoSpace(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error instanceof NoSpaceError || /\(os error (28|122|112)\)/.test(error.message) ||
    isNoSpace(error.cause);
}

/**
 * Runs a download, and repeats it every 30 seconds while there is no disk space for it. What has arrived is kept.
 *
 * @param options.onFull called with the reason each time the disk is full.
 * @throws every other error of `download`.
 */
export async function waitForSpace<T>(
  download: () => Promise<T>,
  { onFull, signal, pause = sleep }: {
    readonly onFull: (reason: string) => void;
    readonly signal?: AbortSignal | undefined;
    readonly pause?: typeof sleep;
  },
): Promise<T> {
  while (true) {
    try {
      return await download();
    } catch (error) {
      signal?.throwIfAborted();
      if (!isNoSpace(error)) throw error;
      onFull((error as Error).message);
      await pause(ASK_AGAIN_MS, signal);
    }
  }
}
