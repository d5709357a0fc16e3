/**
 * One line on a terminal that says how far loading is, and rewrites itself.
 *
 * @module
 */
import { stderrQueue } from "../base/log.ts";
import type { LoadProgress } from "../models/folder/open_context.ts";
import { printProblem } from "./print.ts";
import { leaveOnStopSignal } from "./stop_signals.ts";

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
