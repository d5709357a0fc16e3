/**
 * How a download is reported: a line that rewrites itself on a terminal, a line every five seconds elsewhere.
 *
 * @module
 */
import { formatBytes } from "../base/format_bytes.ts";
import type { DownloadProgress } from "../hub/download.ts";
import type { LoadProgress } from "../models/folder/open_context.ts";

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
