/**
 * One line on a terminal that says how far loading is, and rewrites itself.
 *
 * @module
 */
import type { LoadProgress } from "../worker/protocol.ts";

const encoder = new TextEncoder();
const CLEAR_TO_END = "\x1b[K";

/** Writes to standard error, and only when that is a terminal. */
export class ProgressLine {
  readonly #isShown = Deno.stderr.isTerminal();
  readonly #title: string;

  /** `title` says what is loading. */
  constructor(title: string) {
    this.#title = title;
  }

  /** Writes the line in place of the one before. */
  show({ what, fraction }: LoadProgress): void {
    if (!this.#isShown) return;
    const share = fraction === undefined ? "" : ` ${Math.round(fraction * 100)} %`;
    // A line that wraps could not be rewritten.
    this.#write(`${this.#title}: ${what}${share}`.slice(0, Deno.consoleSize().columns - 1));
  }

  /** Takes the line away. */
  clear(): void {
    this.#write("");
  }

  #write(line: string): void {
    // The cursor goes back to the start, so that a log line, of the worker's thread too, takes this one's place.
    if (this.#isShown) Deno.stderr.writeSync(encoder.encode(`${CLEAR_TO_END}${line}\r`));
  }
}
