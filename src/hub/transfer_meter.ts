/**
 * Rate and remaining time of a download.
 *
 * @module
 */

/** The rate is that of the last seconds: it follows the network without jumping. */
const WINDOW_MS = 5_000;

/** A meter's reading. */
export interface TransferPace {
  readonly bytesPerSecond: number;
  /** Absent while no data arrives. */
  readonly secondsLeft: number | undefined;
}

/** Measures one transfer. */
export class TransferMeter {
  readonly #totalBytes: number;
  #samples: { atMs: number; bytes: number }[] = [];

  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /** Records the bytes at a time; a count that falls (a file restarted) resets the measurement. */
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
