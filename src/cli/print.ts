/**
 * Lines for the person at the command line; what happens while serving goes to the log instead.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Writes a line to standard output. */
export function printLine(line: string): void {
  writeAll(Deno.stdout, `${line}\n`);
}

/** Writes why a command ended to standard error. */
export function printProblem(message: string): void {
  writeAll(Deno.stderr, `hearth: ${message}\n`);
}

function writeAll(target: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let rest = encoder.encode(text);
  // A pipe may take less than it is offered.
  while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
}
