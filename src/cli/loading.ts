/**
 * Finds or downloads a model, and reports the progress: on a terminal in a line that is rewritten, elsewhere in a new
 * line every five seconds.
 *
 * @module
 */
import { tmpdir } from "node:os";
import { stderrQueue } from "../base/log.ts";
import type { LoadProgress } from "../models/model.ts";
import { printProblem } from "./print.ts";
import { leaveOnStopSignal } from "./stop_signals.ts";
import { formatBytes } from "../base/bytes.ts";
import type { DownloadProgress } from "../hub/download.ts";
import type { DeviceChoice, Dtype, ModelKind, ResolvedModel } from "../base/config.ts";
import type { HubModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/cache.ts";

const CLEAR_TO_END = "\x1b[K";
const BAR_CELLS = 20;
/** Longest wait for a terminal that does not take output. */
const MAX_FLUSH_MS = 1000;

/** Width that is assumed if a terminal does not report its own. */
const DEFAULT_COLUMNS = 80;

/** A progress line on standard error. Nothing is written unless standard error is a terminal. */
export class ProgressLine {
  readonly #title: string;
  #isThere = false;
  #isOver = false;

  /** @param title says what is loading. */
  constructor(title: string) {
    this.#title = title;
  }

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

  /** Erases the line for good, and waits until the terminal has received that, so that later output is not erased. */
  async remove(): Promise<void> {
    this.#isOver = true;
    this.clear();
    if (Deno.stderr.isTerminal()) await stderrQueue.flush(MAX_FLUSH_MS);
  }

  #write(line: string): void {
    // The cursor returns to the start of the line, so that log lines, including those of the worker's thread, overwrite
    // it.
    stderrQueue.push(`${CLEAR_TO_END}${line}\r`);
  }
}

/** At a signal to stop, erases the line and prints an explanation before the signal ends the process. */
export function removeOnStopSignal(line: ProgressLine, explain: () => string | undefined): void {
  leaveOnStopSignal(async () => {
    await line.remove();
    const text = explain();
    if (text !== undefined) printProblem(text);
  });
}

/** Formats the line. The bar comes first, so that a narrow terminal cuts off the least important part. */
function formatProgress(title: string, { what, fraction, detail }: LoadProgress): string {
  if (fraction === undefined) return `${title}: ${what}`;
  const filled = Math.floor(fraction * BAR_CELLS);
  const bar = "#".repeat(filled) + "-".repeat(BAR_CELLS - filled);
  const share = `${Math.floor(fraction * 100)}%`.padStart(4);
  return `[${bar}]${share}${detail === undefined ? "" : ` ${detail}`}  ${title}: ${what}`;
}

/** How often a download is reported without a terminal. */
const LINE_EVERY_MS = 5_000;

/** Converts the progress of a download to the progress of loading. */
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

/** Formats a duration: `27 s`, `3 min 5 s`, `2 h 11 min`. */
export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Throttles calls: the first one passes at once, then one every five seconds. */
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

/** The message when a command is stopped during a download. */
export const DOWNLOAD_STOPPED =
  "Stopped. What has been downloaded is kept, and the next download continues from there.";

/** Which weights to get, and how. */
interface GetModelOptions {
  readonly device: DeviceChoice;
  readonly dtype: Dtype | undefined;
  readonly kind: ModelKind | undefined;
  readonly offline: boolean;
  /** Whether to ask the hub for the newest revision. */
  readonly refresh?: boolean;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly signal?: AbortSignal;
}

/**
 * Returns the model with its folder. A model of the hub is downloaded unless it is cached.
 *
 * @throws {StartupError} when it cannot be found or downloaded.
 */
export async function getModel(
  model: ResolvedModel | HubModel,
  { device: choice, offline, onProgress, kind, dtype, ...options }: GetModelOptions,
): Promise<ResolvedModel> {
  if (!("hubId" in model)) return model;
  onProgress({ what: "looking for its files" });
  // Imported on demand: cached models start faster without it.
  const { acquireModel } = await import("../hub/acquire.ts");
  const { classifyDevice } = await import("../device/backend.ts");
  const { chooseFiles } = await import("../models/load/choose_files.ts");
  const device = await classifyDevice(choice);
  return await acquireModel(model, {
    ...options,
    chooseFiles: (folder) => chooseFiles(folder, { kind, dtype, device }),
    settings: readHubSettings(Deno.env.toObject(), { offline }),
    onProgress: (progress) => onProgress(describeDownload(progress)),
  });
}

/**
 * Sets `XDG_RUNTIME_DIR` if it is unset. Must be called before an adapter is requested: Mesa's software Vulkan would
 * otherwise print an "error" about the variable, although it does not use it.
 */
export function quietenVulkan(): void {
  if (Deno.build.os === "linux" && !Deno.env.get("XDG_RUNTIME_DIR")) {
    Deno.env.set("XDG_RUNTIME_DIR", tmpdir());
  }
}
