/**
 * Text and bytes to standard output, standard error and files.
 *
 * @module
 */

const encoder = new TextEncoder();

interface Target {
  writeSync(bytes: Uint8Array): number;
}

/** Writes all of `text` before it returns. A reader that has gone (`hearth | head`) does not end the program. */
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
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
