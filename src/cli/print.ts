/**
 * Lines for the person at the command line; what happens while serving goes to the log instead.
 *
 * @module
 */
import { writeText } from "../write_text.ts";

/** Writes a line to standard output. */
export function printLine(line: string): void {
  writeText(Deno.stdout, `${line}\n`);
}

/** Writes why a command ended to standard error. */
export function printProblem(message: string): void {
  writeText(Deno.stderr, `hearth: ${message}\n`);
}
