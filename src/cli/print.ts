/**
 * Lines and tables for the user of a command. While serving, events go to the log instead.
 *
 * @module
 */
import { writeMessage, writeText } from "../base/write_text.ts";

/** Writes a line to standard output. */
export function printLine(line: string): void {
  writeText(Deno.stdout, `${line}\n`);
}

/** Writes to standard error why a command failed. */
export function printProblem(message: string): void {
  writeMessage(Deno.stderr, `hearth: ${message}\n`);
}

/** Writes a line to standard output, ignoring failures to write it. */
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
