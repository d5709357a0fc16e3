/**
 * Writes lines, tables, text and bytes for the user of a command. While serving, events go to the log instead.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";

/** Writes a line to standard output. */
export function printLine(line: string): void {
  writeText(Deno.stdout, `${line}\n`);
}

/** Writes to standard error why a command failed. */
export function printProblem(message: string): void {
  writeMessage(Deno.stderr, `hearth: ${message}\n`);
}

/** Writes a line to standard output. A failure is ignored. */
export function printMessage(line: string): void {
  writeMessage(Deno.stdout, `${line}\n`);
}

const GAP = "   ";

/** Formats one line per row, with each column as wide as its widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  }
  return rows.map((row) =>
    row.map((cell, column) => cell.padEnd(widths[column]!)).join(GAP).trimEnd()
  );
}

const encoder = new TextEncoder();

interface Target {
  writeSync(bytes: Uint8Array): number;
}

/**
 * Writes all of `text` before it returns. A reader that has gone (`hearth | head`) does not end the program.
 *
 * @throws {StartupError} when it cannot be written, for example because the disk is full.
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
