/**
 * How fast a download is and how long it will take.
 *
 * @module
 */

/** The rate is that of the last seconds: it follows the network, and does not jump. */
const WINDOW_MS = 5_000;

/** What a meter says. */
export interface TransferPace {
  readonly bytesPerSecond: number;
  /** Absent while nothing comes. */
  readonly secondsLeft: number | undefined;
}

/** Watches the count of one transfer. */
export class TransferMeter {
  readonly #totalBytes: number;
  #samples: { atMs: number; bytes: number }[] = [];

  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /** Takes the bytes there at a time; a count that falls (a file is begun anew) starts the measuring again. */
  record(bytes: number, atMs: number): TransferPace {
    if (bytes < (this.#samples.at(-1)?.bytes ?? 0)) this.#samples = [];
    this.#samples.push({ atMs, bytes });
    // One sample from before the window stays, so that the window is covered.
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
