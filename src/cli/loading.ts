/**
 * How a model is found or downloaded, and how that and its loading are reported: a line that rewrites itself on a terminal, a line every five seconds elsewhere.
 *
 * @module
 */
import { tmpdir } from "node:os";
import { stderrQueue } from "../base/log.ts";
import type { LoadProgress } from "../models/folder/open_context.ts";
import { printProblem } from "./print.ts";
import { leaveOnStopSignal } from "./stop_signals.ts";
import { formatBytes } from "../base/format_bytes.ts";
import type { DownloadProgress } from "../hub/download.ts";
import type { DeviceChoice, Dtype, ModelKind, ResolvedModel } from "../base/config.ts";
import type { HubModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/settings.ts";

const CLEAR_TO_END = "\x1b[K";
const BAR_CELLS = 20;
/** Longest wait for a terminal that does not take output. */
const MAX_FLUSH_MS = 1000;

// Width of a terminal that does not report it.
const DEFAULT_COLUMNS = 80;

/** Writes to standard error, and only when that is a terminal. */
export class ProgressLine {
  readonly #title: string;
  #isThere = false;
  #isOver = false;

  /** `title` says what is loading. */
  constructor(title: string) {
    this.#title = title;
  }

  /** Writes the line in place of the one before. */
  show(progress: LoadProgress): void {
    if (this.#isOver || !Deno.stderr.isTerminal()) return;
    const columns = Deno.consoleSize().columns || DEFAULT_COLUMNS;
    // A line that wraps could not be rewritten.
    this.#write(formatProgress(this.#title, progress).slice(0, columns - 1));
    this.#isThere = true;
  }

  /** Erases the line. */
  clear(): void {
    if (this.#isThere) this.#write("");
    this.#isThere = false;
  }

  /** Erases the line for good and waits until that is written, so that later standard output is not erased. */
  async remove(): Promise<void> {
    this.#isOver = true;
    this.clear();
    if (Deno.stderr.isTerminal()) await stderrQueue.flush(MAX_FLUSH_MS);
  }

  #write(line: string): void {
    // The cursor goes back to the start, so that a log line, also of the worker's thread, overwrites this one.
    stderrQueue.push(`${CLEAR_TO_END}${line}\r`);
  }
}

/** Erases the line at a signal to stop, and says what is to be said before the signal ends the process. */
export function removeOnStopSignal(line: ProgressLine, explain: () => string | undefined): void {
  leaveOnStopSignal(async () => {
    await line.remove();
    const text = explain();
    if (text !== undefined) printProblem(text);
  });
}

/** The bar comes before the words, so that a narrow terminal cuts off what matters least. */
function formatProgress(title: string, { what, fraction, detail }: LoadProgress): string {
  if (fraction === undefined) return `${title}: ${what}`;
  const filled = Math.floor(fraction * BAR_CELLS);
  const bar = "#".repeat(filled) + "-".repeat(BAR_CELLS - filled);
  const share = `${Math.floor(fraction * 100)}%`.padStart(4);
  return `[${bar}]${share}${detail === undefined ? "" : ` ${detail}`}  ${title}: ${what}`;
}

/**
 * How a download is reported: a line that rewrites itself on a terminal, a line every five
 * seconds elsewhere.
 */
const LINE_EVERY_MS = 5_000;

/** Progress of a download as progress of loading. */
export function describeDownload(progress: DownloadProgress): LoadProgress {
  const { file, receivedBytes, totalBytes, bytesPerSecond, secondsLeft } = progress;
  const details = [
    `${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`,
    ...(bytesPerSecond > 0 ? [`${formatBytes(Math.round(bytesPerSecond))}/s`] : []),
    ...(secondsLeft === undefined ? [] : [`${formatDuration(secondsLeft)} left`]),
  ];
  return {
    what: `downloading ${file}`,
    fraction: totalBytes === 0 ? 1 : receivedBytes / totalBytes,
    detail: details.join(", "),
  };
}

/** `27 s`, `3 min 5 s`, `2 h 11 min`. */
export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Throttles calls: the first passes at once, then one every five seconds. */
export class SparseLines {
  readonly #write: (progress: LoadProgress) => void;
  readonly #now: () => number;
  #lastMs = -Infinity;

  constructor(
    write: (progress: LoadProgress) => void,
    now: () => number = performance.now.bind(performance),
  ) {
    this.#write = write;
    this.#now = now;
  }

  show(progress: LoadProgress): void {
    const nowMs = this.#now();
    if (nowMs - this.#lastMs < LINE_EVERY_MS) return;
    this.#lastMs = nowMs;
    this.#write(progress);
  }
}

/** What somebody is told who stops a command while it downloads. */
export const DOWNLOAD_STOPPED =
  "Stopped. What has been downloaded is kept, and the next download continues from there.";

/** Which weights, and how to get them. */
interface GetModelOptions {
  readonly device: DeviceChoice;
  readonly dtype: Dtype | undefined;
  readonly kind: ModelKind | undefined;
  readonly offline: boolean;
  /** Ask the hub for the newest revision. */
  readonly refresh?: boolean;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly signal?: AbortSignal;
}

/**
 * The model with its folder; one of the hub is downloaded unless it is cached.
 *
 * @throws {StartupError} when it cannot be found or downloaded.
 */
export async function getModel(
  model: ResolvedModel | HubModel,
  { device: choice, offline, onProgress, kind, dtype, ...options }: GetModelOptions,
): Promise<ResolvedModel> {
  if (!("hubId" in model)) return model;
  onProgress({ what: "looking for its files" });
  // Imported late: models in the cache start faster without these.
  const { acquireModel } = await import("../hub/acquire.ts");
  const { classifyDevice } = await import("../device/device_class.ts");
  const { chooseFiles } = await import("../models/load/model_files.ts");
  const device = await classifyDevice(choice);
  return await acquireModel(model, {
    ...options,
    chooseFiles: (folder) => chooseFiles(folder, { kind, dtype, device }),
    settings: readHubSettings(Deno.env.toObject(), { offline }),
    onProgress: (progress) => onProgress(describeDownload(progress)),
  });
}

/**
 * Sets `XDG_RUNTIME_DIR` where it is unset, before an adapter is looked for: Mesa's software Vulkan would write an
 * "error" about it, although it does not use it. A server calls this only once its process-id file is written, whose
 * folder depends on the variable.
 */
export function quietenVulkan(): void {
  if (Deno.build.os === "linux" && !Deno.env.get("XDG_RUNTIME_DIR")) {
    Deno.env.set("XDG_RUNTIME_DIR", tmpdir());
  }
}
