/**
 * Writes text and bytes to standard output, standard error and files.
 *
 * @module
 */
import { StartupError } from "./errors.ts";

const encoder = new TextEncoder();

interface Target {
  writeSync(bytes: Uint8Array): number;
}

/**
 * Writes all of `text` before it returns. A reader that has gone (`hearth | head`) does not end the program.
 *
 * @throws {StartupError} when it cannot be written, as to a full disk.
 */
export function writeText(target: Target, text: string): void {
  writeBytes(target, encoder.encode(text));
}

/** Like {@linkcode writeText}. */
export function writeBytes(target: Target, bytes: Uint8Array): void {
  let rest = bytes;
  try {
    // A pipe may take less than it is offered.
    while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return;
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartupError(`The output cannot be written: ${reason}`, { cause: error });
  }
}

/** Writes log lines and progress. Failures are ignored: a full disk must not end a server. */
export function writeMessage(target: Target, text: string): void {
  try {
    writeText(target, text);
  } catch {
    // There is nowhere else to report it.
  }
}
