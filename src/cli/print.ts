/**
 * Lines for the person at the command line; what happens while serving goes to the log instead.
 *
 * @module
 */
import { writeNote, writeText } from "../write_text.ts";

/** Writes a line to standard output. */
export function printLine(line: string): void {
  writeText(Deno.stdout, `${line}\n`);
}

/** Writes why a command ended to standard error. */
export function printProblem(message: string): void {
  writeNote(Deno.stderr, `hearth: ${message}\n`);
}

/** Writes a line to standard output that whatever follows does not depend on. */
export function printNote(line: string): void {
  writeNote(Deno.stdout, `${line}\n`);
}
